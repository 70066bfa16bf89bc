// The usual ends of a product — bias, activation, residual, clamp, rounding to the output's type — applied to each of
// its tiles while it is in L1. Other epilogues run as Loops (epilogue.h).
#pragma once
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/step.h"
#include "kernel/facts/epilogue_chain.h"
#include "kernel/facts/product_axes.h"

namespace npusim::cpu::product {

// out[r·row_step + n] = clamp(activation(sum + bias[n]) + residual[r·step + n], low, high) rounded to dtype; NaN stays.
// All types are f32, f16 or bf16; bias and residual may be absent (null), and the activation linear: none.
struct Finish {
  struct Tensor {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    int64_t row_step = 0;
    std::byte* at(int64_t row, int64_t column) const {
      return data + (row * row_step + column) * static_cast<int64_t>(dtype_size(dtype));
    }
  };
  Tensor bias, residual, out;
  Activation activation = Activation::linear;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

// One for each batch of rows x columns; none when the kernel, whose epilogue `chain` is, ends otherwise.
std::vector<Finish> match_finishes(const Kernel& kernel, std::span<const Binding> args, const ProductAxes& axes,
                                   const std::optional<std::vector<EpilogueOp>>& chain);
// That of the only batch; nullopt also where there are several.
std::optional<Finish> match_finish(const Kernel& kernel, std::span<const Binding> args, const ProductAxes& axes,
                                   const std::optional<std::vector<EpilogueOp>>& chain);

// Brings the memory that finish_tile will touch into the cache: its rows are too short for the hardware's prefetcher.
void prefetch_tile(const Finish& finish, int64_t r0, int64_t r1, int64_t n0, int64_t n1);

// Rows [r0, r1) and columns [n0, n1) of the output; c[(r - r0)·ldc + (n - n0)] are their sums, in rows of whole
// vectors, and may be overwritten.
void finish_tile(const Finish& finish, float* c, int64_t ldc, int64_t r0, int64_t r1, int64_t n0, int64_t n1);

}  // namespace npusim::cpu::product
