// Stores that combine with what is there at computed positions of short lines: a block keeps whole lines in shared
// memory.  A line is what points reach that differ only in the dimensions along which they may meet. Its warp takes its
// elements 32 at a time, in index order: lanes of the same position go one after the other, so that each result is
// combined as the kernel says, bit for bit, without atomics in memory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/codegen/generated.h"

namespace npusim::cuda::codegen::rows {

struct CombinedLines {
  std::vector<int> apart, along;       // dimensions of the space: which line, and which of its elements
  int64_t lines = 1, length = 1;       // how many of each
  int64_t line_results = 1;            // results of a line
  std::vector<int64_t> index_extents;  // of the store's index terms, the digits of a position
  bool side_by_side = false;           // neighbouring lines are neighbours in memory
};

// Why there are none in `why`, then. Whether there are enough of them is not checked.
std::optional<CombinedLines> find_combined_lines(const Kernel& kernel, std::string& why);

std::string combine_decline(const Kernel& kernel);  // "" if it does not
GeneratedKernel make_combined(const Kernel& kernel, const Features& features);

}  // namespace npusim::cuda::codegen::rows
