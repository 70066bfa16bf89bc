// The text of an attention's stages.
#pragma once
#include <string>

#include "backends/cuda/codegen/stream/facts/attention.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream::attention {

// NAME_inspect leaves which chunks of the block have keys that are not hidden; NAME_ahead prefetches to L2 what a block
// reads first of keys and values, and where they come through the ring NAME_begin reads masks before anything is waited
// for; NAME_parts, NAME_keep, which writes rows of this step to their positions, and NAME_merge. Parameters: see where
// they are called.
std::string print_attention(const Kernel& kernel, const facts::StreamAttention& attention, const Dialect& dialect,
                            const std::string& name);

}  // namespace npusim::cuda::codegen::stream::attention
