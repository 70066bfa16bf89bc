// The launch itself: tables and the ring in a block's memory, the producer warps, the loop over pieces of text.
#pragma once
#include <string>

#include "backends/cuda/codegen/stream/candidate.h"
#include "backends/cuda/codegen/stream/table.h"

namespace npusim::cuda::codegen::stream {

inline constexpr int64_t list_length = 8, list_count = 4;  // pieces of a list, and lists
inline constexpr int64_t fewest_slots = 3;                 // of the ring

// Of a block's memory, bytes from its begin: the ring, what the plan keeps, scratch, rows of the table, lists,
// barriers.
struct StreamLayout {
  int64_t slots = 0;   // of the ring
  int64_t others = 0;  // bytes besides the ring
  int64_t kept = 0, at_scratch = 0, at_rows = 0, at_prefetched = 0, at_slices = 0, at_lists = 0, at_barriers = 0,
          bytes = 0;
};
StreamLayout lay_out(const StreamTable& table, int64_t kept_bytes, int64_t scratch_bytes, int64_t block_bytes);

struct StreamEntry {
  std::string tables, parameter, body;  // what is declared before the function, what it takes, and its text
};
// `cases`: the pieces of text, by their numbers. `awaited_inspections`: those that the producer waits for.
StreamEntry print_entry(const StreamTable& table, const StreamLayout& layout, const StreamCandidate& candidate,
                        size_t awaited_inspections, const std::string& cases);

}  // namespace npusim::cuda::codegen::stream
