// An attention's score apart: what it is of the product alone, and where a mask leaves it so or takes it away.
#pragma once
#include <optional>

#include "kernel/facts/depend.h"

namespace npusim {

struct MaskedScore {
  Kernel kernel;                   // score_kernel() and the expressions below
  int32_t hidden = -1, open = -1;  // booleans that do not depend on the product, never both true
  int32_t lowest = -1;  // the score where `hidden` is true: −∞, or NaN where the mask is added to no finite number
  int32_t plain = -1;   // the score where `open` is true
  DimSet dims = 0;      // of the score's space, along which the two vary
  // `lowest` is −∞ where the product's absolute value is at most this; infinity: whatever it is.
  double most = 0;
};
// Of the score in `outer`, which holds an attention; nullopt where no mask is found in it.
std::optional<MaskedScore> masked_score(const Kernel& outer);

}  // namespace npusim
