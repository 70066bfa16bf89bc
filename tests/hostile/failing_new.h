// Allocations of this executable that fail when asked to.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace npusim::hostile {

extern std::atomic<int64_t> left;  // allocations before the one that fails; negative: none does
extern size_t least;               // bytes; smaller allocations neither fail nor count

}  // namespace npusim::hostile
