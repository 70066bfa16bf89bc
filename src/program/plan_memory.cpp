// Placements in several orders, each value at the lowest gap, the best of which is taken.
#include "program/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

namespace npusim {
namespace {

constexpr size_t most_tried_again = 4000;       // values: of more a placement takes its time
constexpr uint64_t most_meetings = 20'000'000;  // of two values at one step, in all placements together

uint64_t round_up(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

// Values by the steps at which they are there: a tree over steps, in which a value stands at the few nodes that make up
// its life. Whoever is there at a step is found along one path.
class Lives {
 public:
  explicit Lives(int32_t steps) {
    while (leaves_ < static_cast<size_t>(steps)) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
  }
  void add(const Lifetime& life, uint32_t value) {
    size_t low = leaves_ + static_cast<size_t>(life.begin), high = leaves_ + static_cast<size_t>(life.end) + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2) nodes_[low++].push_back(value);
      if (high % 2) nodes_[--high].push_back(value);
    }
    by_begin_.emplace(life.begin, value);
  }
  // Each value that is there at some step of this life: at its first one, or since a later one.
  template <typename Visit>
  void meet(const Lifetime& life, Visit&& visit) const {
    for (size_t node = leaves_ + static_cast<size_t>(life.begin); node > 0; node /= 2)
      for (const uint32_t value : nodes_[node]) visit(value);
    for (auto it = by_begin_.upper_bound(life.begin); it != by_begin_.end() && it->first <= life.end; ++it)
      visit(it->second);
  }

 private:
  size_t leaves_ = 1;
  std::vector<std::vector<uint32_t>> nodes_;
  std::multimap<int32_t, uint32_t> by_begin_;
};

// Places values in the given order, each at the lowest offset free for its whole life. A value is compared with those
// that it meets: `meetings` is how often that may happen, and is counted down; nothing when they are used up.
std::optional<MemoryPlan> place(const std::vector<Lifetime>& lives, const std::vector<size_t>& order,
                                uint64_t alignment, int32_t steps, uint64_t& meetings) {
  MemoryPlan plan;
  plan.offsets.assign(lives.size(), 0);
  Lives placed(steps);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  for (const size_t i : order) {
    const uint64_t bytes = round_up(lives[i].bytes, alignment);
    if (bytes == 0) continue;
    taken.clear();
    placed.meet(lives[i], [&](uint32_t other) {
      taken.emplace_back(plan.offsets[other], plan.offsets[other] + round_up(lives[other].bytes, alignment));
    });
    if (taken.size() > meetings) return std::nullopt;
    meetings -= taken.size();
    std::sort(taken.begin(), taken.end());
    uint64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= at + bytes) break;
      at = std::max(at, end);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + bytes);
    placed.add(lives[i], static_cast<uint32_t>(i));
  }
  return plan;
}

// In the order of time, each value in the smallest gap that holds it: for so many that meet that nothing better pays.
MemoryPlan place_in_gaps(const std::vector<Lifetime>& lives, const std::vector<size_t>& by_time, uint64_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(lives.size(), 0);
  std::map<uint64_t, uint64_t> gaps;                // by offset: the end
  std::set<std::pair<uint64_t, uint64_t>> by_size;  // size and offset
  const auto take = [&](uint64_t begin) {
    const auto gap = gaps.find(begin);
    by_size.erase({gap->second - begin, begin});
    gaps.erase(gap);
  };
  const auto give = [&](uint64_t begin, uint64_t end) {
    auto next = gaps.lower_bound(begin);
    if (next != gaps.end() && next->first == end) {
      end = next->second;
      take(next->first);
    }
    next = gaps.lower_bound(begin);
    if (next != gaps.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      take(begin);
    }
    gaps[begin] = end;
    by_size.insert({end - begin, begin});
  };
  std::multimap<int32_t, size_t> ends;
  for (const size_t i : by_time) {
    const uint64_t bytes = round_up(lives[i].bytes, alignment);
    for (; !ends.empty() && ends.begin()->first < lives[i].begin; ends.erase(ends.begin())) {
      const size_t over = ends.begin()->second;
      give(plan.offsets[over], plan.offsets[over] + round_up(lives[over].bytes, alignment));
    }
    if (bytes == 0) continue;
    const auto fits = by_size.lower_bound({bytes, 0});
    if (fits == by_size.end()) give(plan.bytes, plan.bytes + bytes), plan.bytes += bytes;
    const auto [size, at] = *by_size.lower_bound({bytes, 0});
    take(at);
    if (size > bytes) give(at + bytes, at + size);
    plan.offsets[i] = at;
    ends.emplace(lives[i].end, i);
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
  std::optional<MemoryPlan> best;
  uint64_t meetings = most_meetings;
  for (auto* order : {&by_size, &by_time, &by_area, &by_stay}) {
    int tries = lives.size() <= most_tried_again ? 8 : 0;  // with what lay highest first
    while (const auto plan = place(lives, *order, alignment, steps, meetings)) {
      if (!best || plan->bytes < best->bytes) best = plan;
      if (best->bytes <= bound + alignment) break;
      if (--tries < 0) break;
      std::stable_partition(order->begin(), order->end(), [&](size_t i) {
        return plan->offsets[i] + round_up(lives[i].bytes, alignment) == plan->bytes;
      });
    }
    if (best && best->bytes <= bound + alignment) break;
  }
  if (!best) best = place_in_gaps(lives, by_time, alignment);
  best->lower_bound = bound;
  return *best;
}

}  // namespace npusim
