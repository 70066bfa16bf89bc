// What small kernels find out about masks, keys and values, so that no block of an attention has to.
#pragma once
#include <optional>

#include "backends/cuda/codegen/attention/attention.h"
#include "kernel/facts/masked_score.h"
#include "kernel/fuse/unfuse.h"

namespace npusim::cuda::codegen::attention {

inline constexpr int64_t summary_keys = 16;  // to a maximum

// Read arguments of the attention's kernel, of which its results do not depend: nothing else in it reads them.
struct AttentionSummary {
  // int8, by line of the mask and stage of keys: 1, all its scores are open there; 2, all are hidden; 0, neither
  int states = -1;
  // float32, by batch and `summary_keys` keys: the largest absolute value, NaN where one is
  int key_tops = -1, value_tops = -1;
};

// With its rows in an order in which those that a mask treats alike are neighbours.
Attention in_order(const Attention& attention, DimSet masked);
// By dimension of the score's space but its last one: how far apart the entries of states lie, and those of tops.
std::vector<int64_t> state_steps(const Attention& in_order, DimSet masked, int64_t stages);
std::vector<int64_t> top_steps(const Attention& attention);

// The kernels that find it and the attention, which has it as arguments; no steps where the blocks inspect the mask
// themselves.
Unfused summarize_attention(const Kernel& kernel, const Attention& attention, const AttentionShape& shape);
// Nothing in a kernel that does not come from there.
std::optional<AttentionSummary> find_summary(const Kernel& kernel, const Attention& attention,
                                             const AttentionShape& shape);

}  // namespace npusim::cuda::codegen::attention
