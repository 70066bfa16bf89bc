// Stores that combine their values with those in memory, in the order of the points.
#pragma once
#include <cstdint>

#include "backends/cpu/loops/tiles/tile.h"

namespace npusim::cpu::loops::moves {

// Rows of lanes of scalar_of(dtype), and the elements that they fall on. Where there are `values`, the element is
// value · stride further on; one value for each point, or for each row (values_column 0).
struct CombineTile {
  char* memory = nullptr;
  const char* lanes = nullptr;
  int64_t rows = 1, columns = 0;
  int64_t row_step = 0, column_step = 0;  // elements in memory
  int64_t lanes_row = 0;
  const int64_t* values = nullptr;
  int64_t values_row = 0, values_column = 0;
  int64_t stride = 0, extent = 0;  // a value outside the extent is a trap, and its point is left out
  int64_t added = 0;               // index_as_given()
  tiles::Trap* trap = nullptr;
  // Of combine_rows: instead of lanes, row r is at source + r · source_step + addresses[r · addresses_row] elements,
  // times scales[r · scales_row] where there are scales.
  const char* source = nullptr;
  int64_t source_step = 0;
  const int32_t* addresses = nullptr;
  int64_t addresses_row = 0;
  const float* scales = nullptr;
  int64_t scales_row = 0;
};
using CombineFn = void (*)(const CombineTile&);

// Every result is rounded to the element type, in which the value is rounded or cut first.
CombineFn combine_fn(DType dtype, Reduction reduction);
// Of float32 rows that are read where they lie, side by side in memory: rows that fall on the same elements are
// combined in registers.
CombineFn combine_rows_fn(Reduction reduction);

}  // namespace npusim::cpu::loops::moves
