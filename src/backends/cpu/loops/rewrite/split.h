// Before a kernel is compiled to loops: the space split where conditions change, constants folded.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace npusim::cpu::loops::rewrite {

// A kernel over the part [begin, end) of the original space; its own indices start at 0. Its guards are pure conditions
// (stride 0), every load has the type of its argument's lanes, and every store that of its argument.
struct Piece {
  Kernel kernel;
  std::vector<int64_t> begin, end;
  std::vector<int> dims;  // the original dimension of each of the piece's; empty once dimensions were merged
};

// Pieces that cover the space; in each as many conditions as possible are constants.
std::vector<Piece> split_kernel(const Kernel& kernel);

}  // namespace npusim::cpu::loops::rewrite
