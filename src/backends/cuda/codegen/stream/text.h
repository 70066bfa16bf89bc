// The text of a whole method: a function for each kind of stage, a table of the stages, and the loop over it.
#pragma once
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/candidate.h"
#include "backends/cuda/codegen/stream/plan.h"
#include "backends/cuda/codegen/text.h"

namespace npusim::cuda::codegen::stream {

struct StreamText {
  std::string symbol;
  std::string functions;        // without the helpers that they mention
  std::vector<int32_t> values;  // what the parameter points to, in order, each once; behind them the trap
                                // word, if a step has traps, and its own memory
  std::vector<int> first_trap;  // by step: its traps have the numbers behind this one; -1: it has none
  int64_t shared_bytes = 0, own_bytes = 0;
  std::string how;
};

// Threads: consumers, and four producer warps; registers move between warpgroups.
inline constexpr int stream_block = 128 + facts::stream_threads;

// Why a block's memory does not do in `why`.
std::optional<StreamText> print_stream(const WholeMethod& method, const StreamPlan& plan,
                                       const StreamCandidate& candidate, std::string& why);

}  // namespace npusim::cuda::codegen::stream
