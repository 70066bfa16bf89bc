// Kernels with a matmul as products of blocks, with the epilogue run on each block of the result while it is in cache.
#pragma once
#include <map>
#include <mutex>

#include "backends/cpu/contraction_epilogue.h"

namespace npusim::cpu {

// A weight in panels, in its own dtype (f32, f16 or bf16): [batch][panel][k][columns of a tile], 0 past the last
// column.
struct PackedWeight {
  DType dtype = DType::f32;
  std::shared_ptr<std::byte> data;
};

// Packed weights by address, dtype and layout. Threads may pack at the same time.
struct WeightCache {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const PackedWeight>> weights;
};

// The dimensions of a matmul by role. A dimension neither operand depends on is in no axis.
struct MatmulAxes {
  Axis batch, rows, columns, depth;
};
MatmulAxes classify(const Kernel& kernel, const Access& a, const Access& b);

// How threads share batches, rows and panels: each its own contiguous part, no barrier.
struct Grid {
  int64_t batches = 1, rows = 1, panels = 1;
};

Grid choose_grid(int64_t batches, int64_t rows, int64_t panels, int threads);

// Any matmul (and any convolution, as a matmul whose operand a is gathered).
std::unique_ptr<Step> make_matmul_step(const Kernel& kernel, std::span<const Binding> args, const Context& context);

// Stores that add to memory need the order of one thread.
int usable_threads(const Kernel& kernel, const Context& context);

}  // namespace npusim::cpu
