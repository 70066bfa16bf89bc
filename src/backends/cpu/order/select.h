// The element of a row that comes at one rank of its order, without ordering the others.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "backends/cpu/order/entries.h"

namespace npusim::cpu::order {

inline constexpr int64_t compared = 48;  // keys that are too few to be counted by their digits

// Of n keys the one with `rank` smaller or equal ones before it, and how many of those are smaller. The keys of the
// digit where it must be are moved to `spare`, which may be `keys`; `counts` has room for `digits` numbers.
template <typename Key>
struct Selected {
  Key key;
  int64_t smaller;
};
template <typename Key>
Selected<Key> select_key(const Key* keys, Key* spare, uint32_t* counts, int64_t n, int64_t rank) {
  int64_t smaller = 0;
  while (n > compared) {
    Key low = keys[0], high = keys[0];
    for (int64_t i = 1; i < n; ++i) low = std::min(low, keys[i]), high = std::max(high, keys[i]);
    if (low == high) return {low, smaller};
    // All share the bits above the highest that differs.
    const int bits = bits_of_digits(n), width = std::bit_width(static_cast<Key>(low ^ high));
    const int shift = std::max(width - bits, 0);
    const auto mask = static_cast<Key>((Key{1} << bits) - 1);
    std::fill(counts, counts + (int64_t{1} << bits), 0u);
    for (int64_t i = 0; i < n; ++i) ++counts[keys[i] >> shift & mask];
    Key digit = low >> shift & mask;
    int64_t before = 0;
    while (before + counts[digit] <= rank) before += counts[digit++];
    rank -= before, smaller += before;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Key key = keys[i];
      spare[kept] = key;
      kept += (key >> shift & mask) == digit;
    }
    keys = spare, n = kept;
    if (shift == 0) return {keys[0], smaller};
  }
  if (keys != spare) std::copy_n(keys, n, spare);
  std::nth_element(spare, spare + rank, spare + n);
  const Key key = spare[rank];
  return {key, smaller + std::count_if(spare, spare + rank, [&](Key other) { return other < key; })};
}

// Where the element is: of equal ones the earlier has the lower rank.
template <typename Key>
int64_t select_index(const Key* keys, Key* spare, uint32_t* counts, int64_t n, int64_t rank) {
  const Selected<Key> found = select_key(keys, spare, counts, n, rank);
  int64_t equal = rank - found.smaller;
  constexpr int64_t block = 64;
  int64_t at = 0;
  for (; at + block <= n; at += block) {
    int64_t here = 0;
    for (int64_t i = 0; i < block; ++i) here += keys[at + i] == found.key;
    if (here > equal) break;
    equal -= here;
  }
  for (;; ++at)
    if (keys[at] == found.key && equal-- == 0) return at;
}

}  // namespace npusim::cpu::order
