// Rows of keys with their indices, put in order: entries are all different, so that any sort of them is stable.
#pragma once
#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "backends/cpu/order/neighbours.h"
#include "base/threads.h"

namespace npusim::cpu::order {

// A key of 32 bits above an index of 32.
struct ShortEntry {
  uint64_t both = 0;
  ShortEntry() = default;
  ShortEntry(uint32_t key, uint64_t index) : both(uint64_t{key} << 32 | index) {}
  uint32_t key() const { return static_cast<uint32_t>(both >> 32); }
  int64_t index() const { return static_cast<int64_t>(both & 0xffffffff); }
  auto operator<=>(const ShortEntry&) const = default;
};

struct LongEntry {
  uint64_t first = 0, second = 0;
  LongEntry() = default;
  LongEntry(uint64_t key, uint64_t index) : first(key), second(index) {}
  uint64_t key() const { return first; }
  int64_t index() const { return static_cast<int64_t>(second); }
  bool operator==(const LongEntry&) const = default;
  std::strong_ordering operator<=>(const LongEntry& other) const {
    return first != other.first ? first <=> other.first : second <=> other.second;
  }
  bool operator<(const LongEntry& other) const {
    return first < other.first || (first == other.first && second < other.second);
  }
};

// Without a branch, which a processor would guess wrong every other time.
inline void put_in_order(ShortEntry& a, ShortEntry& b) {
  const uint64_t changed = (a.both ^ b.both) & -static_cast<uint64_t>(b.both < a.both);
  a.both ^= changed, b.both ^= changed;
}
inline void put_in_order(LongEntry& a, LongEntry& b) {
  const uint64_t below = (b.first < a.first) | ((b.first == a.first) & (b.second < a.second));
  const uint64_t first = (a.first ^ b.first) & -below, second = (a.second ^ b.second) & -below;
  a.first ^= first, b.first ^= first, a.second ^= second, b.second ^= second;
}

inline constexpr int digit_bits = 11;
inline constexpr int64_t digits = int64_t{1} << digit_bits;
inline constexpr int64_t radix_from = 64;          // elements: fewer are compared
inline constexpr int64_t two_digits_from = 16384;  // elements that are worth counts of two digits
// Of few elements the digits are short: there are counts to clear and to add up for each.
inline int bits_of_digits(int64_t n) { return n < 4096 ? 8 : digit_bits; }

// f(part) for each of some parts, on a thread each.
template <typename F>
void for_parts(int parts, F&& f) {
  if (parts == 1) return f(0);
  parallel_for(parts, 1, [&f](int64_t begin, int64_t end, int) {
    for (int64_t part = begin; part < end; ++part) f(static_cast<int>(part));
  });
}

// By a loop without a branch, which std::max_element has.
inline uint16_t largest_of(const uint16_t* counts, int64_t size) {
  uint16_t most = 0;
  for (int64_t d = 0; d < size; ++d) most = std::max(most, counts[d]);
  return most;
}

// Counts become offsets: of each digit the number of entries with a lower one.
inline void offsets_of(uint16_t* counts, int64_t size) {
  unsigned before = 0;
  for (int64_t d = 0; d < size; ++d) {
    const unsigned count = counts[d];
    counts[d] = static_cast<uint16_t>(before);
    before += count;
  }
}

// Puts in order what nearly is, by comparing. False: some of it is far from its final position; what was done is a
// permutation.
template <typename Entry>
bool sort_nearly_sorted(Entry* entries, int64_t n) {
  int64_t moves = 0;
  const int64_t most = 8 * n;
  for (int64_t i = 1; i < n; ++i) {
    if (!(entries[i] < entries[i - 1])) continue;
    const Entry e = entries[i];
    int64_t at = i;
    for (; at > 0 && e < entries[at - 1]; --at) entries[at] = entries[at - 1];
    entries[at] = e;
    if ((moves += i - at) > most) return false;
  }
  return true;
}

// By the two highest digits, which few entries share where keys are random, and the rest by comparing. False: many
// share the highest one, and nothing is done. Of fewer than 2^16 entries, whose keys have more bits than the two.
template <typename Entry>
bool sort_by_two_digits(Entry* entries, Entry* spare, uint16_t* counts, int64_t n, int key_bits) {
  const auto digit = [](const Entry& e, int shift) { return static_cast<int64_t>(e.key() >> shift) & (digits - 1); };
  const int high = key_bits - digit_bits, low = high - digit_bits;
  uint16_t *of_low = counts, *of_high = counts + digits;
  std::fill(counts, counts + 2 * digits, uint16_t{0});
  for (int64_t i = 0; i < n; ++i) ++of_low[digit(entries[i], low)], ++of_high[digit(entries[i], high)];
  if (largest_of(of_high, digits) > 24 + 4 * n / digits) return false;
  offsets_of(of_low, digits), offsets_of(of_high, digits);
  for (int64_t i = 0; i < n; ++i) spare[of_low[digit(entries[i], low)]++] = entries[i];
  for (int64_t i = 0; i < n; ++i) entries[of_high[digit(spare[i], high)]++] = spare[i];
  if (!sort_nearly_sorted(entries, n)) std::sort(entries, entries + n);
  return true;
}

// By the highest digit, of so many bits that few entries share one where keys are random, and within it by comparing.
// False: more do, and nothing is done. Else the entries are in `spare`. Of fewer than 2^16 entries.
template <typename Entry>
bool sort_by_first_digit(const Entry* entries, Entry* spare, uint16_t* counts, int64_t n, int key_bits, int step) {
  constexpr int few = 24;
  const int64_t size = int64_t{1} << step;
  const auto digit = [&](const Entry& e) { return static_cast<int64_t>(e.key() >> (key_bits - step)) & (size - 1); };
  std::fill(counts, counts + size, uint16_t{0});
  for (int64_t i = 0; i < n; ++i) ++counts[digit(entries[i])];
  const int64_t most = largest_of(counts, size);
  if (most > few) return false;
  offsets_of(counts, size);
  for (int64_t i = 0; i < n; ++i) spare[counts[digit(entries[i])]++] = entries[i];
  if constexpr (std::is_same_v<Entry, ShortEntry>) {
    constexpr int64_t most_passes = 12;
    if (most <= most_passes) return order_neighbours(&spare->both, n, most), true;
  }
  for (int64_t i = 1; i < n; ++i) {  // none goes further than its digit's first
    if (!(spare[i] < spare[i - 1])) continue;
    const Entry e = spare[i];
    int64_t at = i;
    for (; at > 0 && e < spare[at - 1]; --at) spare[at] = spare[at - 1];
    spare[at] = e;
  }
  return true;
}

// Sorts n entries by the digits of their keys, the lowest first; counts has room for `digits` numbers of each part.
// Returns where they are: in `entries`, or in `spare`, which has room for as many.
template <typename Entry>
Entry* sort_entries(Entry* entries, Entry* spare, int64_t* counts, int64_t n, int key_bits, int parts) {
  if (n < radix_from) {
    std::sort(entries, entries + n);
    return entries;
  }
  auto* short_counts = reinterpret_cast<uint16_t*>(counts);
  if (parts == 1 && n >= two_digits_from && n < 1 << 16 && key_bits > 2 * digit_bits &&
      sort_by_two_digits(entries, spare, short_counts, n, key_bits))
    return entries;
  const int first = std::min<int>(std::bit_width(static_cast<uint64_t>(n) - 1), digit_bits + 2);  // counts of 16 bits
  if (parts == 1 && n < two_digits_from && key_bits > first &&
      sort_by_first_digit(entries, spare, short_counts, n, key_bits, first))
    return spare;
  const int step = bits_of_digits(n);
  const int64_t size = int64_t{1} << step;
  for (int shift = 0; shift < key_bits; shift += step) {
    const auto digit = [&](const Entry& e) { return static_cast<int64_t>(e.key() >> shift) & (size - 1); };
    for_parts(parts, [&](int part) {
      int64_t* own = counts + part * digits;
      std::fill(own, own + size, 0);
      const int64_t end = n * (part + 1) / parts;
      for (int64_t i = n * part / parts; i < end; ++i) ++own[digit(entries[i])];
    });
    int64_t before = 0;
    bool all_equal = false;
    for (int64_t d = 0; d < size; ++d) {
      const int64_t start = before;
      for (int part = 0; part < parts; ++part) before += std::exchange(counts[part * digits + d], before);
      all_equal = all_equal || before - start == n;
    }
    if (all_equal) continue;
    for_parts(parts, [&](int part) {
      int64_t* own = counts + part * digits;
      const int64_t end = n * (part + 1) / parts;
      for (int64_t i = n * part / parts; i < end; ++i) spare[own[digit(entries[i])]++] = entries[i];
    });
    std::swap(entries, spare);
  }
  return entries;
}

inline constexpr int64_t scan_block = 64;
// Entries that a search for the first `count` has room for.
inline int64_t room_of_first(int64_t count) { return 2 * count + 2 * scan_block; }

// The first `count` of the entries that arrive in the order of their indices, in any order; most are rejected by
// their keys alone.
template <typename Entry, typename Key>
class First {
 public:
  First(Entry* room, int64_t count) : room_(room), count_(count) {}

  // `n`, at most a block, keys from `first` on.
  void add(const Key* keys, int64_t n, int64_t first) {
    if (full_) {
      bool some = false;
      for (int64_t i = 0; i < n; ++i) some |= keys[i] < limit_;
      if (!some) return;
    }
    take(keys, n, first);
  }
  bool full() const { return full_; }
  Key limit() const { return limit_; }
  // The same of keys some of which may count.
  void take(const Key* keys, int64_t n, int64_t first) {
    for (int64_t i = 0; i < n; ++i)
      if (!full_ || keys[i] < limit_) room_[size_++] = Entry(keys[i], static_cast<uint64_t>(first + i));
    const bool early = !full_ && count_ <= scan_block / 4;  // few would be searched for among many
    if (size_ > (early ? count_ : room_of_first(count_) - scan_block)) cut();
  }
  // How many there are: `count`, or all that came.
  int64_t finish() {
    if (size_ > count_) cut();
    return size_;
  }

 private:
  void cut() {
    if (count_ <= 8)
      std::partial_sort(room_, room_ + count_, room_ + size_);
    else
      std::nth_element(room_, room_ + count_ - 1, room_ + size_);
    size_ = count_;
    limit_ = static_cast<Key>(room_[count_ - 1].key());  // what comes later with this key comes behind
    full_ = true;
  }

  Entry* room_;
  int64_t count_;
  int64_t size_ = 0;
  Key limit_ = 0;
  bool full_ = false;  // from then on only keys below the limit count
};

}  // namespace npusim::cpu::order
