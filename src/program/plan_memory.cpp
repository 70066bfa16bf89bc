// Placements in several orders, each value at the lowest gap, the best of which is taken.
#include "program/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace npusim {
namespace {

constexpr size_t most_tried_again = 4000;  // values: of more a placement takes its time

uint64_t round_up(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

// Places values in the given order, each at the lowest offset free for its whole life. Values alive at a step are kept
// in a list per step, so a value is compared with its true neighbours only: the work is the sum of lifetimes.
MemoryPlan place(const std::vector<Lifetime>& lives, const std::vector<size_t>& order, uint64_t alignment,
                 int32_t steps) {
  MemoryPlan plan;
  plan.offsets.assign(lives.size(), 0);
  std::vector<std::vector<uint32_t>> alive(static_cast<size_t>(steps));
  std::vector<uint32_t> seen(lives.size(), UINT32_MAX);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  for (size_t turn = 0; turn < order.size(); ++turn) {
    const size_t i = order[turn];
    const Lifetime& life = lives[i];
    const uint64_t bytes = round_up(life.bytes, alignment);
    if (bytes == 0) continue;
    taken.clear();
    for (int32_t s = life.begin; s <= life.end; ++s)
      for (uint32_t other : alive[static_cast<size_t>(s)]) {
        if (seen[other] == turn) continue;
        seen[other] = static_cast<uint32_t>(turn);
        taken.emplace_back(plan.offsets[other], plan.offsets[other] + round_up(lives[other].bytes, alignment));
      }
    std::sort(taken.begin(), taken.end());
    uint64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= at + bytes) break;
      at = std::max(at, end);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + bytes);
    for (int32_t s = life.begin; s <= life.end; ++s) alive[static_cast<size_t>(s)].push_back(static_cast<uint32_t>(i));
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lives, uint64_t alignment) {
  int32_t steps = 0;
  for (const Lifetime& life : lives) steps = std::max(steps, life.end + 1);
  std::vector<uint64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const Lifetime& life : lives) {
    change[static_cast<size_t>(life.begin)] += life.bytes;
    change[static_cast<size_t>(life.end) + 1] -= life.bytes;
  }
  uint64_t sum = 0, bound = 0;
  for (uint64_t c : change) bound = std::max(bound, sum += c);

  std::vector<size_t> by_size(lives.size()), by_time(lives.size()), by_area(lives.size()), by_stay(lives.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  by_time = by_area = by_stay = by_size;
  auto span = [&](size_t i) { return static_cast<uint64_t>(lives[i].end - lives[i].begin) + 1; };
  auto area = [&](size_t i) { return lives[i].bytes * span(i); };
  auto stays = [&](size_t i) { return 2 * span(i) > static_cast<uint64_t>(steps); };
  std::stable_sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  std::stable_sort(by_time.begin(), by_time.end(), [&](size_t a, size_t b) { return lives[a].begin < lives[b].begin; });
  std::stable_sort(by_area.begin(), by_area.end(), [&](size_t a, size_t b) { return area(a) > area(b); });
  // What is there most of the time lies at the bottom, where it parts nothing; of one size the longer life goes first.
  std::stable_sort(by_stay.begin(), by_stay.end(), [&](size_t a, size_t b) {
    return std::tuple(stays(a), lives[a].bytes, span(a)) > std::tuple(stays(b), lives[b].bytes, span(b));
  });
  MemoryPlan best;
  for (auto* order : {&by_size, &by_time, &by_area, &by_stay}) {
    int tries = lives.size() <= most_tried_again ? 8 : 0;  // with what lay highest first
    for (MemoryPlan plan = place(lives, *order, alignment, steps);; plan = place(lives, *order, alignment, steps)) {
      if (best.offsets.empty() || plan.bytes < best.bytes) best = plan;
      if (best.bytes <= bound + alignment) break;
      if (--tries < 0) break;
      std::stable_partition(order->begin(), order->end(), [&](size_t i) {
        return plan.offsets[i] + round_up(lives[i].bytes, alignment) == plan.bytes;
      });
    }
    if (best.bytes <= bound + alignment) break;
  }
  best.lower_bound = bound;
  return best;
}

}  // namespace npusim
