// What a score's epilogue does to q·k: the forms attention computes itself, and any other through Loops.
#pragma once
#include <optional>

#include "backends/cpu/product/epilogue.h"

namespace npusim::cpu {

// score = scale·(q·k) + mask[row, key], and for keys at or past the row's limit and for those that `kept`, a tensor of
// booleans, does not keep: `masked`, or `masked` added to it.
struct ScoreForm {
  float scale = 1;
  int mask = -1, kept = -1;  // indices into the score kernel's accesses
  bool keeps = true;         // the value of `kept` that keeps
  bool limited = false;  // limit = limit_offset + Σ limit_coeffs[d]·index[d] over the score's dimensions but the last
  bool added = false;
  float masked = 0;
  int64_t limit_offset = 0;
  std::vector<int64_t> limit_coeffs;
};
// nullopt: none of these forms.
std::optional<ScoreForm> match_score(const Kernel& score);

// The score as a kernel of its own that overwrites the contraction's value: `outer`'s read arguments, then the tile.
Kernel score_kernel(const Kernel& outer, const std::vector<int64_t>& strides);

}  // namespace npusim::cpu
