// Products as tiles of one shape, for the tests that go through shapes.
#pragma once
#include "backends/cuda/target/tile.h"
#include "cuda/harness/check.h"
#include "kernel/builder.h"

namespace npusim {

// As tiles of that shape; by the length of the name one operand, the other or none is there ahead.
Case tiled(std::string name, Kernel kernel, const cuda::TileShape& shape);
std::string name_of(const cuda::TileShape& shape);

// An epilogue: gelu of the sum and a bias, and a residual.
Ex gelu(KernelBuilder&, Ex leaf, Ex bias, Ex residual);
// A score: a quarter of the leaf and the mask.
Ex masked(KernelBuilder&, Ex leaf, Ex mask);

}  // namespace npusim
