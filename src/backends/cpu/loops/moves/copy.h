// Copies of blocks of elements, of any strides.
#pragma once
#include <cstddef>
#include <cstdint>

namespace npusim::cpu::loops::moves {

// Strides in elements. The two blocks are the same or do not overlap.
struct BlockCopy {
  void* to = nullptr;
  const void* from = nullptr;
  int64_t to_row = 0, to_column = 1;
  int64_t from_row = 0, from_column = 1;
  int64_t rows = 1, columns = 1;
};
void copy_block(const BlockCopy& block, size_t element_bytes);

}  // namespace npusim::cpu::loops::moves
