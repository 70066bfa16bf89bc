// Transposition of a block of elements.
#pragma once
#include <cstdint>

namespace npusim::cpu {

// dst[r · dst_row + c] = src[c · src_row + r]
void transpose(uint8_t* dst, int64_t dst_row, const uint8_t* src, int64_t src_row, int64_t rows, int64_t columns);
void transpose(uint16_t* dst, int64_t dst_row, const uint16_t* src, int64_t src_row, int64_t rows, int64_t columns);
void transpose(uint32_t* dst, int64_t dst_row, const uint32_t* src, int64_t src_row, int64_t rows, int64_t columns);
void transpose(uint64_t* dst, int64_t dst_row, const uint64_t* src, int64_t src_row, int64_t rows, int64_t columns);

}  // namespace npusim::cpu
