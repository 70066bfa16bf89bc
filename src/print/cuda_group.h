// The text of products by a warpgroup, for each type and width: too many registers to write them down.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace npusim {

namespace cuda_group {

constexpr std::string decimal(int n) {
  std::string text;
  do text.insert(text.begin(), static_cast<char>('0' + n % 10));
  while ((n /= 10) != 0);
  return text;
}

constexpr std::string print(int columns, std::string_view type) {
  const int count = columns / 2;  // registers of a thread
  std::string registers, operands;
  for (int n = 0; n < count; ++n) {
    registers += (n ? ", %" : "%") + decimal(n);
    operands += (n ? ", \"+f\"(sums[" : "\"+f\"(sums[") + decimal(n / 4) + "][" + decimal(n % 4) + "])";
  }
  const std::string width = decimal(columns), ty(type);
  return "$fn void multiply_group_" + ty + "_" + width +
         "(float (*sums)[4], const void* a, const void* b, int k) {\n  asm volatile(\n      \"{\\n.reg .pred add;\\n"
         "setp.ne.b32 add, 1, 0;\\nwgmma.mma_async.sync.aligned.m64n" +
         width + "k16.f32." + ty + "." + ty + " {" + registers + "}, %" + decimal(count) + ", %" + decimal(count + 1) +
         ", add, 1, 1, 0, 0;\\n}\"\n      : " + operands +
         "\n      : \"l\"(group_matrix(a, k)), \"l\"(group_matrix(b, k)));\n}";
}

template <int columns, bool bf16>
[[gnu::visibility("hidden")]] inline constexpr auto text = [] {  // GCC does not hide it by itself
  constexpr auto make = [] { return print(columns, bf16 ? "bf16" : "f16"); };
  std::array<char, make().size()> chars{};
  const std::string made = make();
  for (size_t n = 0; n < chars.size(); ++n) chars[n] = made[n];
  return chars;
}();

}  // namespace cuda_group

// sums[j][e] += a (64 x 16) · b (columns x 16), as `multiply_group_TYPE_COLUMNS`.
template <int columns, bool bf16>
inline constexpr std::string_view multiply_group{cuda_group::text<columns, bf16>.data(),
                                                 cuda_group::text<columns, bf16>.size()};

}  // namespace npusim
