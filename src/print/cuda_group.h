// The text of products by a warpgroup, for each type and width: too many registers to write them down.
#pragma once
#include <cstddef>
#include <string_view>

namespace npusim {

struct GroupText {
  char chars[6144] = {};
  size_t size = 0;

  constexpr void add(std::string_view text) {
    for (const char c : text) chars[size++] = c;
  }
  constexpr void add(int n) {
    if (n >= 10) add(n / 10);
    chars[size++] = static_cast<char>('0' + n % 10);
  }
  constexpr std::string_view view() const { return {chars, size}; }
};

constexpr GroupText group_text(int columns, std::string_view type) {
  const int count = columns / 2;  // registers of a thread
  GroupText t;
  t.add("$fn void multiply_group_"), t.add(type), t.add("_"), t.add(columns);
  t.add("(float (*sums)[4], const void* a, const void* b, int k) {\n  asm volatile(\n      \"{\\n.reg .pred add;\\n");
  t.add("setp.ne.b32 add, 1, 0;\\nwgmma.mma_async.sync.aligned.m64n");
  t.add(columns), t.add("k16.f32."), t.add(type), t.add("."), t.add(type), t.add(" {");
  for (int n = 0; n < count; ++n) t.add(n ? ", %" : "%"), t.add(n);
  t.add("}, %"), t.add(count), t.add(", %"), t.add(count + 1), t.add(", add, 1, 1, 0, 0;\\n}\"\n      : ");
  for (int n = 0; n < count; ++n) {
    t.add(n ? ", \"+f\"(sums[" : "\"+f\"(sums["), t.add(n / 4), t.add("]["), t.add(n % 4), t.add("])");
  }
  t.add("\n      : \"l\"(group_matrix(a, k)), \"l\"(group_matrix(b, k)));\n}");
  return t;
}

// sums[j][e] += a (64 x 16) · b (columns x 16), as `multiply_group_TYPE_COLUMNS`.
template <int columns, bool bf16>
inline constexpr GroupText multiply_group = group_text(columns, bf16 ? "bf16" : "f16");

}  // namespace npusim
