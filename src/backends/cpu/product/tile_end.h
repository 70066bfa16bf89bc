// How the sums of a register tile end in the output: what all tiles of a product share.
#pragma once
#include <cmath>

#include "backends/cpu/product/finish.h"

namespace npusim::cpu::product {

// Of a Finish whose residual, if any, is of the output's type.
struct TileEnd {
  int64_t out_stride = 0, residual_stride = 0;
  DType dtype = DType::f32;  // of output and residual
  Activation activation = Activation::linear;
  bool clamps = false;
  float low = 0, high = 0;
};
inline TileEnd tile_end(const Finish& f) {
  const bool clamps = !std::isinf(f.low) || !std::isinf(f.high);
  return {f.out.row_step, f.residual.row_step, f.out.dtype, f.activation, clamps, f.low, f.high};
}

}  // namespace npusim::cpu::product
