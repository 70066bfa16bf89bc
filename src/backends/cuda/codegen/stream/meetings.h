// Where the threads of a block must meet between stages.
#pragma once
#include <span>
#include <vector>

#include "backends/cuda/codegen/stream/plan.h"

namespace npusim::cuda::codegen::stream {

// By stage of the chain, whose first one stands behind a wait: whether the block meets before it, because it touches
// memory that an earlier one does too. In the block's memory by bytes: values share it.
std::vector<char> stream_meetings(const WholeMethod& method, const StreamPlan& plan,
                                  std::span<const StreamStage> chain);

}  // namespace npusim::cuda::codegen::stream
