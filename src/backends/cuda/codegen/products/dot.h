// Products of few rows: warps read a matrix once, in words, and each of its lines is the sum of one or several of them.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "plan/product.h"

namespace npusim::cuda::codegen::products {

struct DotShape {
  int lines = 1;  // of the matrix, to a warp
  int warps = 1;  // to a line: they share its depth
};
DotShape choose_dots(const Product& product);
std::string dots_decline(const Product& product);  // "" if they do not
GeneratedKernel make_dots(const Kernel& kernel, const Product& product, const DotShape& shape,
                          const Features& features);

}  // namespace npusim::cuda::codegen::products
