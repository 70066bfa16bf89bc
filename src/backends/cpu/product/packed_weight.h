// Weights packed once, shared by all steps that read them.
#pragma once
#include <map>
#include <mutex>

#include "backends/cpu/product/operand.h"
#include "backends/cpu/step.h"

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

// The columns of all batches in panels of `width`, from the context's cache when it has one. Axes: batch, columns,
// depth.
std::shared_ptr<const PackedWeight> packed_weight(const Operand& b, int64_t width, const Context& context);

// One panel, columns [j0, j0 + width) of depths [k0, k1), as f32.
void pack_panel(const Operand& b, int64_t width, int64_t batch, int64_t j0, int64_t k0, int64_t k1, float* dst);

}  // namespace npusim::cpu
