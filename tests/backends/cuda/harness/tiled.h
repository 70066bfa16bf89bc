// Products as tiles of one shape, for the tests that go through shapes.
#pragma once
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/harness/check.h"
#include "kernel/builder.h"

namespace npusim {

// As tiles of that shape; by the length of the name one operand, the other or none is there ahead.
Case tiled(std::string name, Kernel kernel, const cuda::codegen::products::TileShape& shape);
std::string name_of(const cuda::codegen::products::TileShape& shape);

// a [batch, m, k] or [batch, k, m], b [batch, n, k] or [batch, k, n].
Kernel batched_product(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_across, bool b_across, DType type);
// An epilogue: gelu of the sum and a bias, and a residual.
Ex gelu(KernelBuilder&, Ex leaf, Ex bias, Ex residual);
// A score: a quarter of the leaf and the mask.
Ex masked(KernelBuilder&, Ex leaf, Ex mask);

}  // namespace npusim
