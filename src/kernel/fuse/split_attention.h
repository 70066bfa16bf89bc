// Attention over pieces of the keys, and what they found put together.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim {

// Two steps that do what an attention does which stores without adding: the attention of each of `pieces` equal pieces
// of the keys, with the log of its weights' sum; and the sum of the pieces' results by their shares, with the epilogue.
Unfused split_attention(const Kernel& kernel, int64_t pieces);

}  // namespace npusim
