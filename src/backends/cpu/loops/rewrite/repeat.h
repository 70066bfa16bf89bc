// Copies that have each element several times, as a resize by a whole factor.
#pragma once
#include "backends/cpu/loops/rewrite/split.h"

namespace npusim::cpu::loops::rewrite {

// In a piece that only copies, a dimension along which loads have each element the same number of times becomes two:
// which element, and which of its times. Then its loads are affine.
void split_repeats(Piece& piece);

}  // namespace npusim::cpu::loops::rewrite
