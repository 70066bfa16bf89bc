// Products with few rows: every weight is read once, where it lies and in its own dtype, at the speed of memory.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu {

inline constexpr int64_t gemv_max_rows = 4;

// Declines unless there is one batch of at most gemv_max_rows rows, or of a few more beside a weight that every run
// would have to pack, and b's elements are neighbours along the depth.
Answer make_gemv_step(Problem& problem);

// out[r·ld_out + n] = Σ_k x[r·ld_x + k] · w[n·stride + k] for r < rows <= gemv_max_rows, n < columns.
void dot_columns(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                 int64_t ld_x, int64_t rows, float* out, int64_t ld_out);

}  // namespace npusim::cpu
