// Transforms as the products that the target makes of them: executed, and as near to the interpreter as sums are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/harness/check.h"
#include "kernel/fourier_kernels.h"

namespace npusim {
namespace {

using test::FourierKind, test::FourierSpec;

TEST(CudaFourier, RowsAsProducts) {
  std::vector<Steps> all;
  for (const FourierKind kind : {FourierKind::complex, FourierKind::real, FourierKind::signal})
    for (const int64_t length : {2, 7, 60, 300, 521}) {  // one product, two, a convolution
      if (length == 521 && kind != FourierKind::real) continue;
      FourierSpec s{.kind = kind, .rows = {3}, .length = length, .given = length, .kept = length, .scale = 0.5};
      if (kind == FourierKind::signal) s.given = length / 2 + 1;
      if (kind == FourierKind::real) s.kept = length / 2 + 1;
      s.columns = length == 60;
      all.push_back({fmt::format("fourier{}_{}", static_cast<int>(kind), length), test::fourier_kernel(s), 0});
    }
  check_steps(all);
}

}  // namespace
}  // namespace npusim
