// The expressions around a contraction as a kernel of their own, which reads the contraction from memory.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/facts/product_axes.h"
#include "kernel/kernel.h"

namespace npusim {

struct EpilogueKernel {
  Kernel kernel;
  int leaf = -1;  // the f32 argument that holds the contraction, behind all that are read
};
// `strides` address the leaf's argument over the space; `log`, where an attention's log of a sum is in it.
EpilogueKernel make_epilogue(const Kernel& kernel, const std::vector<int64_t>& strides, const Access& log = {});

// Strides of row-major rows x columns over a space of `rank` dimensions; 0 along dimensions in neither axis.
std::vector<int64_t> tile_strides(size_t rank, const Axis& rows, const Axis& columns, int64_t ld);

}  // namespace npusim
