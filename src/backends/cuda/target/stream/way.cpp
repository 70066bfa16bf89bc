// One change at a time, and some together.
#include "backends/cuda/target/stream/way.h"

#include <fmt/format.h>

namespace npusim::cuda {

std::span<const StreamWay> stream_ways() {
  constexpr int64_t slot = slot_bytes;
  static constexpr StreamWay ways[] = {
      {},          {.under_way = slot * 3 / 2}, {.under_way = slot * 5 / 2}, {.late = 2},
      {.late = 0}, {.under_way = slot * 3},     {.nearer = false},           {.once = false},
  };
  return ways;
}

std::string to_string(const StreamWay& way) {
  return fmt::format("{} KB of a block under way, many words read when {} come", way.under_way / 1024,
                     way.late == 0 ? "all have" : fmt::format("all but 1 in {} have", way.late)) +
         (way.nearer ? "" : ", words where they are") + (way.once ? ", weights read once" : "");
}

}  // namespace npusim::cuda
