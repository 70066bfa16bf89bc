// Loops over keys and entries: neighbours exchanged until all are in order, and ranges, on every instruction set.
#include "backends/cpu/order/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/instruction_sets.h"

namespace npusim::cpu::order {
namespace {

// As many passes as the largest group has, wherever groups begin: entries of one are in no order, those of the next
// above.
TEST(Neighbours, TurnsPutGroupsInOrder) {
  on_every_instruction_set([] {
    std::mt19937_64 random(1);
    for (int64_t n = 0; n < 70; ++n)
      for (int64_t largest : {1, 2, 3, 4, 7, 12}) {
        std::vector<uint64_t> entries(static_cast<size_t>(n));
        for (uint64_t& e : entries) e = random();
        std::sort(entries.begin(), entries.end());
        const std::vector<uint64_t> sorted = entries;
        for (int64_t begin = 0, end = 0; begin < n; begin = end) {
          end = std::min(n, begin + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest)));
          std::reverse(entries.begin() + begin, entries.begin() + end);
          if (random() % 2) std::shuffle(entries.begin() + begin, entries.begin() + end, random);
        }
        order_neighbours(entries.data(), n, largest);
        ASSERT_EQ(entries, sorted) << n << " of groups of " << largest;
      }
  });
}

TEST(Neighbours, RangeOfEveryRemainder) {
  on_every_instruction_set([] {
    std::mt19937_64 random(2);
    for (int64_t n = 1; n < 40; ++n)
      for (int64_t extreme : {std::numeric_limits<int64_t>::min(), int64_t{-1}, std::numeric_limits<int64_t>::max()})
        for (int64_t at = 0; at < n; ++at) {
          std::vector<int64_t> x(static_cast<size_t>(n));
          for (int64_t& element : x) element = static_cast<int64_t>(random());
          x[static_cast<size_t>(at)] = extreme;
          const auto [low, high] = range_of(x.data(), n);
          ASSERT_EQ(low, *std::min_element(x.begin(), x.end()));
          ASSERT_EQ(high, *std::max_element(x.begin(), x.end()));
        }
  });
}

}  // namespace
}  // namespace npusim::cpu::order
