// Methods as launches of one stream each.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/text.h"
#include "codegen/target.h"

namespace npusim::cuda::codegen::stream {

// A method that one launch does, printed.
struct StreamLaunch : LaunchPlan {
  struct Argument {
    size_t step = 0, position = 0;
  };
  struct Trap {
    size_t step = 0;
    std::string message;
  };
  StreamText text;
  std::vector<Argument> args;  // text.values, of the method's steps
  std::vector<Trap> traps;     // in the order of their numbers, from 1 on
};

// Why it cannot be one in `why`, then. `gains`: or why it gains nothing by it.
std::optional<StreamLaunch> make_stream(const WholeMethod& method, const StreamWay& way, bool gains, std::string& why);
// The steps of such a launch, as they were shown when it was made.
WholeMethod method_of(const Program& program, const Sequence& sequence, const Launch& launch);
// Fills in the launch: all but its code.
void fill_launch(const Program& program, const Sequence& sequence, const StreamLaunch& stream, Launch& launch);

}  // namespace npusim::cuda::codegen::stream
