// What a GPU can do, measured by two small kernels of its own.
#pragma once
#include "backends/cuda/memory.h"

namespace npusim::cuda {

// The best of several times, in about a second. A device without tensor cores for bfloat16 has no second figure.
DeviceLimits measure_limits(Device& device);

// The kernels, as text for the driver: read() and fill() of memory in words of 16 bytes; products() of bfloat16 by
// warpgroups (`wgmma`) or, on other devices, by warps (`mma`).
std::string memory_ptx();
std::string products_ptx(bool warpgroups);

}  // namespace npusim::cuda
