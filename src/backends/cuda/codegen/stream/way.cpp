// One change at a time, and some together.
#include "backends/cuda/codegen/stream/way.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/stream/entry.h"

namespace npusim::cuda::codegen::stream {

std::span<const StreamWay> stream_ways() {
  static constexpr StreamWay ways[] = {
      {},
      {.requests = 5, .gap = 450, .gap_behind_keys = 650},
      {.requests = 4, .gap = 350, .gap_behind_keys = 600},
      {.requests = 3, .gap = 350, .gap_behind_keys = 350},
      {.gap_behind_keys = 850},
      {.gap_behind_keys = 500},
      {.gap = 550, .gap_behind_keys = 750},
      {.requests = 4, .gap = 0, .gap_behind_keys = 0},
      {.nearer = false},
      {.late = 2},
      {.once = false},
  };
  // A request waits for the one so many halves before it, which the ring has a barrier for.
  static_assert(std::all_of(std::begin(ways), std::end(ways),
                            [](const StreamWay& way) { return way.requests <= 2 * fewest_slots; }));
  return ways;
}

std::string to_string(const StreamWay& way) {
  return fmt::format("{} requests of a block under way, {} clocks apart, behind keys {}, many words read when {} come",
                     way.requests, way.gap, way.gap_behind_keys,
                     way.late == 0 ? "all have" : fmt::format("all but 1 in {} have", way.late)) +
         (way.nearer ? "" : ", words where they are") + (way.once ? ", weights read once" : "");
}

}  // namespace npusim::cuda::codegen::stream
