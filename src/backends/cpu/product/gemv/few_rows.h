// SIMD loops of a few rows times a matrix that is read once, where it lies and in its own dtype: f32, f16 or bf16.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace npusim::cpu::product::gemv {

// out[r·ld_out + n] = Σ_k x[r·ld_x + k] · w[n·stride + k] for r < rows, n < columns. Of one column, with a stride
// of 0, less is wasted.
void dot_columns(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                 int64_t ld_x, int64_t rows, float* out, int64_t ld_out);

// out[r·ld_out + n] += Σ_k x[r·ld_x + k] · w[k·stride + n] for r < rows, n < columns. The sums begin at 0: what is
// there counts as one number more.
void add_weighted(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                  int64_t ld_x, int64_t rows, float* out, int64_t ld_out);
// The same, of long rows that are read one after the other: what each column adds up is in another order.
void add_long_rows(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                   int64_t ld_x, int64_t rows, float* out, int64_t ld_out);

}  // namespace npusim::cpu::product::gemv
