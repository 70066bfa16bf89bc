// One change at a time, and some together.
#include "backends/cuda/target/stream/way.h"

#include <fmt/format.h>

namespace npusim::cuda {

std::span<const StreamWay> stream_ways() {
  static constexpr StreamWay ways[] = {
      {},
      {.gap = 500},
      {.requests = 4, .gap = 500},
      {.requests = 6, .gap = 600},
      {.gap = 0},
      {.late = 2},
      {.late = 0},
      {.nearer = false},
      {.once = false},
  };
  return ways;
}

std::string to_string(const StreamWay& way) {
  return fmt::format("{} requests of a block under way, {} clocks apart, many words read when {} come", way.requests,
                     way.gap, way.late == 0 ? "all have" : fmt::format("all but 1 in {} have", way.late)) +
         (way.nearer ? "" : ", words where they are") + (way.once ? ", weights read once" : "");
}

}  // namespace npusim::cuda
