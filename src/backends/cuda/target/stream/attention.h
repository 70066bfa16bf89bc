// Attention of a few query rows: blocks share the keys, and what they find is merged.
#pragma once
#include <optional>
#include <string>

#include "kernel/facts/attention_axes.h"
#include "print/dialect.h"

namespace npusim::cuda {

inline constexpr int64_t quad_columns = 4;  // of a thread

struct StreamAttention {
  AttentionAxes axes;
  int64_t splits = 1;         // of the keys of each batch
  int64_t partial_bytes = 0;  // of all splits: sums of the columns, the largest score and the sum of weights
  int64_t shared_bytes = 0;   // of a block
};
std::optional<StreamAttention> find_stream_attention(const Kernel& kernel, std::string& why);

// NAME_ahead brings what a block reads first of keys and values nearer, whatever it is by then; NAME_parts and
// NAME_merge. Parameters: scratch of the block (parts only), the partial results (not ahead), then those of the kernel.
std::string print_attention(const Kernel& kernel, const StreamAttention& attention, const Dialect& dialect,
                            const std::string& name);

}  // namespace npusim::cuda
