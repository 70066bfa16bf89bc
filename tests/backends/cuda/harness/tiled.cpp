// Cases of tiles.
#include "backends/cuda/harness/tiled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/codegen/text.h"
#include "kernel/contractions.h"

namespace npusim {
using cuda::codegen::GeneratedKernel;

Case tiled(std::string name, Kernel kernel, const cuda::codegen::products::TileShape& shape) {
  kernel.name = name;
  std::string why;
  auto product = plan::find_product(kernel, why);
  EXPECT_TRUE(product) << name << ": " << why;
  EXPECT_EQ(cuda::codegen::products::tiles_decline(*product), "");
  EXPECT_TRUE(cuda::codegen::products::takes(shape, *product)) << name;
  std::vector<bool> ahead(kernel.args.size());
  const size_t number = name.size() % 3;  // none, one or the other
  product->a.ahead = number == 1, product->b.ahead = number == 2;
  for (const cuda::codegen::Operand* o : {&product->a, &product->b}) ahead[static_cast<size_t>(o->arg)] = o->ahead;
  GeneratedKernel made =
      cuda::codegen::products::make_tiles(kernel, *product, shape, shape.groups || shape.specialized ? hopper : any);
  made.symbol = cuda::codegen::function_name(kernel, *product);
  return {std::move(name), std::move(kernel), std::move(made), std::move(ahead)};
}

std::string name_of(const cuda::codegen::products::TileShape& s) {
  return fmt::format("{}{}x{}", s.specialized ? "specialized" : s.groups ? "groups" : "", s.rows, s.columns);
}

Kernel batched_product(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_across, bool b_across, DType type) {
  KernelBuilder b({batch, m, n});
  const int x = b.input({type, a_across ? Shape{batch, k, m} : Shape{batch, m, k}}),
            w = b.input({type, b_across ? Shape{batch, k, n} : Shape{batch, n, k}}),
            out = b.output({DType::f32, {batch, m, n}});
  const Coord z = b.dim(0), i = b.dim(1), j = b.dim(2), r = b.dim(3);
  const Coords x_at = a_across ? Coords{z, r, i} : Coords{z, i, r}, w_at = b_across ? Coords{z, r, j} : Coords{z, j, r};
  b.store(out, b.contract(ContractionKind::matmul, {k}, x, x_at, w, w_at));
  return b.finish("product");
}

Ex gelu(KernelBuilder&, Ex leaf, Ex bias, Ex residual) {
  Ex x = leaf + bias;
  return x * 0.5 * (1.0 + erf(x * 0.70710678)) + residual;
}

Ex masked(KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.25 + mask; }

}  // namespace npusim
