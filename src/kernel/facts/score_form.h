// What a score's epilogue makes of q·k, where it is of a form that attention kernels compute themselves.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// score = scale·(q·k) + mask[row, key], and for keys at or past the row's limit and for those that `kept`, a tensor of
// booleans, does not keep: `masked`, or `masked` added to it.
struct ScoreForm {
  float scale = 1;
  int mask = -1, kept = -1;  // indices into the score's accesses
  bool keeps = true;         // the value of `kept` that keeps
  bool limited = false;  // limit = limit_offset + Σ limit_coeffs[d]·index[d] over the score's dimensions but the last
  bool added = false;
  float masked = 0;
  int64_t limit_offset = 0;
  std::vector<int64_t> limit_coeffs;
};
// Of the score in `outer`, which holds an attention; nullopt: none of these forms.
std::optional<ScoreForm> score_form(const Kernel& outer);

}  // namespace npusim
