// Attention by warpgroups: 64 rows to each, both products of what lies in shared memory.
#pragma once
#include <optional>

#include "backends/cuda/codegen/attention/attention.h"

namespace npusim::cuda::codegen::attention {

// Nothing where there are too few rows for all multiprocessors.
std::optional<AttentionShape> choose_groups(const Attention& attention, const Features& features);
int64_t group_bytes(const Attention& attention, const AttentionShape& shape);  // of shared memory
std::string group_attention(const Kernel& kernel, const Attention& attention, const AttentionShape& shape);

}  // namespace npusim::cuda::codegen::attention
