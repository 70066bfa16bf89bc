// Binary searches: chains of steps that kernels spell out, each done as one move.
#pragma once
#include <cstdint>

#include "backends/cpu/loops/tiles/tile.h"

namespace npusim::cpu::loops::rewrite {

// Makes each chain (kernel/search.h) one expression: a load that is_search(), whose access has the value that is
// searched for as its only index term.
void find_searches(Kernel& kernel);
bool is_search(const Expr& e);

// For each point the row begins at its element of memory, and has `extent` elements `stride` apart.
struct SearchTile {
  const char* memory = nullptr;
  int64_t rows = 1, columns = 0;
  int64_t row_step = 0, column_step = 0;  // elements in memory
  const void* values = nullptr;           // lanes of scalar_of(dtype)
  int64_t values_row = 0, values_column = 0;
  int64_t stride = 0, extent = 0;
  int64_t* out = nullptr;
  int64_t out_row = 0;
};
using SearchFn = void (*)(const SearchTile&);
SearchFn search_fn(const Expr& e, DType dtype);

}  // namespace npusim::cpu::loops::rewrite
