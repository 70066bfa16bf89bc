// Dimensions of a piece removed and merged.
#pragma once
#include "backends/cpu/loops/rewrite/split.h"

namespace npusim::cpu::loops::rewrite {

// Removes dimensions of extent 1 and, when `merge`, merges neighbours that every access walks as one.
void collapse_dimensions(Piece& piece, bool merge);

}  // namespace npusim::cpu::loops::rewrite
