// Where elements are whose indices are data, and reading them from there.
#pragma once
#include <cstdint>
#include <span>

#include "backends/cpu/loops/tiles/tile.h"

namespace npusim::cpu::loops::moves {

struct AddressTerm {
  const int64_t* values = nullptr;
  bool varies = false;  // one value for each element; else one, broadcast
  int64_t stride = 0, extent = 0, added = 0;
};
// at[i] = Σ stride·value, which fits. A value outside its extent is a trap, and the address 0.
void find_addresses(std::span<const AddressTerm> terms, int64_t n, int32_t* at, tiles::Trap& trap);

// out[i] = memory[at[i] + i·step]
void gather(const uint8_t* memory, const int32_t* at, int64_t step, int64_t n, uint8_t* out);
void gather(const uint16_t* memory, const int32_t* at, int64_t step, int64_t n, uint16_t* out);
void gather(const uint32_t* memory, const int32_t* at, int64_t step, int64_t n, uint32_t* out);
void gather(const uint64_t* memory, const int32_t* at, int64_t step, int64_t n, uint64_t* out);

}  // namespace npusim::cpu::loops::moves
