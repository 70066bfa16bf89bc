// Copies of which a row is several runs, as of an image with a border: its pieces as one.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/loops/split.h"

namespace npusim::cpu {

// Strides and offsets in elements. Units are blocks of rows of a plane.
struct Joined {
  struct Run {
    int64_t to = 0, from = 0, step = 1, columns = 0;  // step: in `from`
  };
  int to_arg = -1, from_arg = -1;
  size_t bytes = 4;  // of an element
  std::vector<Run> runs;
  std::vector<int64_t> extents, to_strides, from_strides;  // of the planes
  int64_t rows = 1, to_row = 0, from_row = 0;
  int64_t units = 1;
};

// Takes pieces that are copies and apart only in their columns out of the list.
std::vector<Joined> join_copies(std::vector<Piece>& pieces);
double cost_of(const Joined& joined);  // ns of a unit, roughly
void copy_units(const Joined& joined, void* const* args, int64_t first, int64_t last);

}  // namespace npusim::cpu
