// Recognising the words of a draw (kernel/draw.h) by the shape of their ten rounds.
#pragma once
#include <array>
#include <optional>

#include "kernel/kernel.h"

namespace npusim {

// What one draw is made of: expressions of 32 bits each, in i64.
struct DrawForm {
  std::array<int32_t, 4> counter{-1, -1, -1, -1};
  std::array<int32_t, 2> key{-1, -1};
  bool operator==(const DrawForm&) const = default;
};

struct DrawnWord {
  DrawForm draw;
  int word = 0;  // of its four
};

// Which word of which draw the expression is.
std::optional<DrawnWord> drawn_word(const Kernel& kernel, int32_t expr);

}  // namespace npusim
