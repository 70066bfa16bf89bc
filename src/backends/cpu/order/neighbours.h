// Loops over keys and entries by vectors.
#pragma once
#include <cstdint>
#include <utility>

namespace npusim::cpu::order {

// Exchanges neighbours that are out of order, first those from an even position on, then from an odd one, in
// `passes` alternating passes: entries of which none is further from its final position than that are all in order.
void order_neighbours(uint64_t* entries, int64_t n, int64_t passes);

// The least and the largest of at least one.
std::pair<int64_t, int64_t> range_of(const int64_t* x, int64_t n);

}  // namespace npusim::cpu::order
