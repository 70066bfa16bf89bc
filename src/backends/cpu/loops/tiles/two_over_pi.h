// The digits of 2/π in pieces, from which an angle of any size is reduced.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace npusim::cpu::loops::tiles {

inline constexpr uint32_t two_over_pi_digits[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab};

constexpr double exact_power_of_two(int n) {
  double power = 1;
  for (int i = 0; i < n; ++i) power *= 2;
  for (int i = 0; i > n; --i) power /= 2;
  return power;
}
// 2^scale · 2/π, of it what its digits of weights 2^high down to 2^(high − count + 1) make; at most 53 of them.
constexpr double piece_of_two_over_pi(int scale, int high, int count) {
  uint64_t digits = 0;
  for (int weight = high; weight > high - count; --weight) {
    const int digit = scale - weight - 1;  // behind the point, from 0
    digits = 2 * digits + (digit < 0 ? 0 : two_over_pi_digits[digit / 32] >> (31 - digit % 32) & 1);
  }
  return static_cast<double>(digits) * exact_power_of_two(high - count + 1);
}

// Of 2^(16 k) · 2/π without whole multiples of 2^54, to 2^-158: of a double in [1, 2^16) those give whole turns.
inline constexpr auto quarters_of_doubles = [] {
  std::array<std::array<double, 4>, 64> pieces{};
  for (int k = 0; k < 64; ++k)
    for (int i = 0; i < 4; ++i)
      pieces[static_cast<size_t>(k)][static_cast<size_t>(i)] = piece_of_two_over_pi(16 * k, 53 - 53 * i, 53);
  return pieces;
}();
// Of 2^k · 2/π without whole multiples of 2^25, to 2^-57, of which the first is exact in a product with a float.
inline constexpr auto quarters_of_floats = [] {
  std::array<std::array<double, 2>, 128> pieces{};
  for (int k = 0; k < 128; ++k)
    pieces[static_cast<size_t>(k)] = {piece_of_two_over_pi(k, 24, 29), piece_of_two_over_pi(k, -5, 53)};
  return pieces;
}();

}  // namespace npusim::cpu::loops::tiles
