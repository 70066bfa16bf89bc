// Methods as launches of one stream each.
#pragma once
#include <optional>
#include <string>

#include "backends/cuda/codegen/stream/way.h"
#include "codegen/target.h"

namespace npusim::cuda::codegen::stream {

// nullopt if it can be one, else why not. `gains`: and gains by it.
std::optional<std::string> cannot_stream(const WholeMethod& method, bool gains = false);

// Fills in the launch of a method that can: all but its code, of which these are the functions, without the helpers
// that they mention.
std::string plan_stream_launch(const Program& program, const Sequence& sequence, Launch& launch,
                               const StreamWay& way = {});

}  // namespace npusim::cuda::codegen::stream
