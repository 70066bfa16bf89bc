// The rotary embedding that torch.export hides in a `wrap_with_set_grad_enabled` node (docs/ir_format.md section 6).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace npusim {

inline constexpr std::string_view rotary_op = "wrap_with_set_grad_enabled";

// Why a call cannot be the rotary embedding; empty if it is: inv_freq float32[D/2] and integer positions [B, S] to two
// results [B, S, D].
std::string refuse_rotary(const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs);

// Why the IR at `where` does not prove that cos and sin are unscaled; empty when the config.json beside it does, and
// then `type` is what it says.
std::string refuse_rotary_body(const std::string& where, std::string& type);

// Appends the ops that compute `outputs`, cos and sin of the angles, both halves of D equal. Throws unsupported when
// one of them is unknown.
void expand_rotary(Graph& graph, const std::string& name, ValueId inv_freq, ValueId positions,
                   const std::vector<ValueId>& outputs);

}  // namespace npusim
