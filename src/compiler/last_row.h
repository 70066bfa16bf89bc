// A prefill for generation: logits of one position instead of all.
#pragma once
#include <optional>

#include "codegen/build_program.h"

namespace npusim {

// From a lowered method for several tokens, with roles, the same method with the logits of one of them: an input more
// says which. All that only these logits ask for is computed of that one, states and other outputs as before. Weights
// and states are shared with the method it comes from. nullopt where it is no such method; `reason` says why where it
// is one, but what computes its logits has no rows.
std::optional<MethodGraph> last_row(const MethodGraph& prefill, std::string name, std::string& reason);

}  // namespace npusim
