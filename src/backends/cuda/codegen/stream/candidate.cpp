// One change at a time, and some together.
#include "backends/cuda/codegen/stream/candidate.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/stream/entry.h"

namespace npusim::cuda::codegen::stream {

std::span<const StreamCandidate> stream_candidates() {
  static constexpr StreamCandidate candidates[] = {
      {},
      {.requests = 5, .gap = 450, .gap_behind_keys = 650},
      {.requests = 4, .gap = 350, .gap_behind_keys = 600},
      {.requests = 3, .gap = 350, .gap_behind_keys = 350},
      {.gap_behind_keys = 850},
      {.gap_behind_keys = 500},
      {.gap = 550, .gap_behind_keys = 750},
      {.requests = 4, .gap = 0, .gap_behind_keys = 0},
      {.prefetch = false},
      {.late = 2},
      {.once = false},
  };
  // A request waits for the one so many halves before it, which the ring has a barrier for.
  static_assert(std::all_of(std::begin(candidates), std::end(candidates),
                            [](const StreamCandidate& candidate) { return candidate.requests <= 2 * fewest_slots; }));
  return candidates;
}

std::string to_string(const StreamCandidate& candidate) {
  return fmt::format("{} requests of a block in flight, {} clocks apart, behind keys {}, many words read when {} come",
                     candidate.requests, candidate.gap, candidate.gap_behind_keys,
                     candidate.late == 0 ? "all have" : fmt::format("all but 1 in {} have", candidate.late)) +
         (candidate.prefetch ? "" : ", words not prefetched") + (candidate.once ? ", weights read once" : "");
}

}  // namespace npusim::cuda::codegen::stream
