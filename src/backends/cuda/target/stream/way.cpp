// One change at a time, and some together.
#include "backends/cuda/target/stream/way.h"

#include <fmt/format.h>

namespace npusim::cuda {

std::span<const StreamWay> stream_ways() {
  constexpr int64_t kb = 1024, slot = slot_bytes;
  static constexpr StreamWay ways[] = {
      {},
      {.ahead = 192 * kb},
      {.ahead = 192 * kb, .apart = 270},
      {.ahead = 192 * kb, .apart = 800},
      {.under_way = slot * 3 / 2, .ahead = 192 * kb},
      {.under_way = slot * 3 / 2, .ahead = 192 * kb, .apart = 270},
      {.nearer = false},
      {.once = true},
      {.under_way = slot * 3 / 2},
      {.ahead = 96 * kb},
      {.ahead = 384 * kb},
      {.ahead = 192 * kb, .apart = 200},
      {.under_way = slot, .ahead = 192 * kb, .apart = 270},
      {.late = 0},
      {.late = 2},
      {.ahead = 192 * kb, .late = 0},
      {.under_way = slot * 5 / 2},
      {.ahead = 192 * kb, .nearer = false},
      {.ahead = 192 * kb, .once = true},
      {.nearer = false, .once = true},
      {.under_way = slot},
  };
  return ways;
}

std::string to_string(const StreamWay& way) {
  return fmt::format("{} KB of a block under way, {} ahead, many words read when {} come{}", way.under_way / 1024,
                     way.ahead == 0 ? "none" : fmt::format("{} KB, {} clocks apart,", way.ahead / 1024, way.apart),
                     way.late == 0 ? "all have" : fmt::format("all but 1 in {} have", way.late),
                     way.nearer ? "" : ", words where they are") +
         (way.once ? ", weights read once" : "");
}

}  // namespace npusim::cuda
