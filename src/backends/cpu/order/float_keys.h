// Keys of float32 by vectors.
#pragma once
#include <cstdint>

namespace npusim::cpu::order {

// Of a block of scan_block elements the keys (keys.h), each ^ flip; whether any is below `limit`.
bool float_keys(const uint32_t* elements, uint32_t flip, uint32_t limit, uint32_t* keys);

}  // namespace npusim::cpu::order
