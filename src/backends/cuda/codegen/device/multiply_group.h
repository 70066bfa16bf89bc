// The text of products by a warpgroup, for each type and width: too many registers to write them down.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_part.h"

namespace npusim::cuda::codegen::device {

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
  // Named as the function is.
  constexpr TextPart part() const {
    const std::string_view text{chars, size};
    const size_t begin = text.find("multiply");
    return {text.substr(begin, text.find('(') - begin), text};
  }
};

// Where operand a is, and what becomes of the sums that were there.
enum class GroupForm : uint8_t {
  adds,        // a in shared memory
  first,       // the same; the sums begin with this product
  transposed,  // a in registers, and the depth of b runs across its lines; adds
};

constexpr GroupText group_text(int columns, std::string_view type, GroupForm form) {
  const int count = columns / 2;  // registers of a thread
  const bool transposed = form == GroupForm::transposed, first = form == GroupForm::first;
  GroupText t;
  t.add("__device__ __forceinline__ void multiply_");
  t.add(transposed ? "transposed_group_" : first ? "first_group_" : "group_");
  t.add(type), t.add("_"), t.add(columns);
  t.add(transposed ? "(float (*sums)[4], const unsigned* a, const void* b, int lines)"
                   : "(float (*sums)[4], const void* a, const void* b, int k)");
  t.add(" {\n  asm volatile(\n      \"{\\n.reg .pred add;\\n");
  t.add(first ? "setp.ne.b32 add, 0, 0;" : "setp.ne.b32 add, 1, 0;");
  t.add("\\nwgmma.mma_async.sync.aligned.m64n");
  t.add(columns), t.add("k16.f32."), t.add(type), t.add("."), t.add(type), t.add(" {");
  for (int n = 0; n < count; ++n) t.add(n ? ", %" : "%"), t.add(n);
  if (transposed) {
    t.add("}, {");
    for (int n = 0; n < 4; ++n) t.add(n ? ", %" : "%"), t.add(count + n);
    t.add("}, %"), t.add(count + 4), t.add(", add, 1, 1, 1;\\n}\"\n      : ");
  } else {
    t.add("}, %"), t.add(count), t.add(", %"), t.add(count + 1), t.add(", add, 1, 1, 0, 0;\\n}\"\n      : ");
  }
  const std::string_view access = first ? "\"=f\"(sums[" : "\"+f\"(sums[";
  for (int n = 0; n < count; ++n) {
    if (n) t.add(", ");
    t.add(access), t.add(n / 4), t.add("]["), t.add(n % 4), t.add("])");
  }
  t.add(transposed ? "\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(group_matrix_transposed(b, "
                     "lines)));\n}"
                   : "\n      : \"l\"(group_matrix(a, k)), \"l\"(group_matrix(b, k)));\n}");
  return t;
}

// sums[j][e] += a (64 x 16) · b (columns x 16), as `multiply_group_TYPE_COLUMNS`, and the other forms. Of a warpgroup,
// four warps: warp w has rows 16 w to 16 w + 15. They are in flight until they are waited for.
template <int columns, bool bf16, GroupForm form>
inline constexpr GroupText multiply_group = group_text(columns, bf16 ? "bf16" : "f16", form);
template <GroupForm form, int... columns>
inline constexpr std::array multiply_groups{multiply_group<columns, false, form>.part()...,
                                            multiply_group<columns, true, form>.part()...};

}  // namespace npusim::cuda::codegen::device
