// Products with few rows: every weight is read once, where it lies and in its own dtype, at the speed of memory.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::gemv {

// Declines unless there are at most gemv_max_rows rows, or a few more and one weight that every run would have to
// pack, and b's elements are neighbours along the depth or, where it is not packed, the columns; and of several
// products with weights that are constant.
Answer make_gemv_step(Problem& problem);

}  // namespace npusim::cpu::product::gemv
