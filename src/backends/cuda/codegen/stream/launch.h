// Methods as launches of one stream each.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/text.h"
#include "codegen/target.h"
#include "plan/launches.h"

namespace npusim::cuda::codegen::stream {

// A method that one launch does, printed.
struct StreamLaunch : LaunchPlan {
  struct Argument {
    size_t step = 0, position = 0;
  };
  std::shared_ptr<const plan::GeneratedKernel> made;
  std::vector<Argument> args;  // of the method's steps
};

// Why it cannot be one in `why`, then. `gains`: or why it gains nothing by it.
std::optional<StreamLaunch> make_stream(const WholeMethod& method, const StreamCandidate& candidate,
                                        const Features& device, bool gains, std::string& why);
// The steps of such a launch, as they were shown when it was made.
WholeMethod method_of(const Program& program, const Sequence& sequence, const Launch& launch);
// The launch of a sequence's steps that it is.
plan::LaunchedBy launched_by(const StreamLaunch& stream, std::span<const Step> steps);

}  // namespace npusim::cuda::codegen::stream
