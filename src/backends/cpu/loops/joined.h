// Copies of which a row is several runs, as of an image with a border: its pieces as one.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cpu/loops/rewrite/split.h"

namespace npusim::cpu::loops {

// Strides and offsets in elements. A plane has bands of rows, all of the same runs; units are blocks of rows of a
// plane.
struct Joined {
  struct Run {
    int64_t to = 0, from = 0, step = 1, columns = 0;  // step: in `from`
    bool zeros = false;                               // and nothing is read
    bool operator==(const Run&) const = default;
  };
  struct Band {
    int64_t to = 0, from = 0, from_row = 0, rows = 1;
  };
  int to_arg = -1, from_arg = -1;
  size_t bytes = 4;                                        // of an element
  std::vector<Run> runs;                                   // from the band's offsets on, the longest first
  std::vector<Band> bands;                                 // from the plane's
  std::vector<int64_t> extents, to_strides, from_strides;  // of the planes
  int64_t to_row = 0;
  int64_t block_rows = 1;
  int64_t blocks = 0, units = 0;  // of a plane, of all
};

// Takes pieces that are copies or zeros and apart only in their columns out of the list; what is apart in its rows then
// is one.
std::vector<Joined> join_copies(std::vector<rewrite::Piece>& pieces);
double cost_of(const Joined& joined);  // ns of a unit, roughly
void copy_units(const Joined& joined, void* const* args, int64_t first, int64_t last);

}  // namespace npusim::cpu::loops
