// What of a value a block needs of which it reads the part of one batch of an attention alone.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "backends/cuda/codegen/stream/plan.h"

namespace npusim::cuda::codegen::stream {

// Sets `slices` and `row_slices` of the plan. Where there are as many blocks as an attention has splits of all batches,
// each has one, of one batch: what only that attention reads, and rows before it that every block computes for itself,
// it needs of its batch alone. Of rows that are written into keys or values at a position that is known when the method
// runs, only the block needs any that has that key.
void find_slices(const WholeMethod& method, StreamPlan& plan);

// Of rows that every block computes for itself: how many threads there are to them where these need not meet, one for
// each point or row, or a warp for each row. 0: the block meets there.
int64_t threads_of_rows(const Kernel& kernel, const Schedule& schedule);

}  // namespace npusim::cuda::codegen::stream
