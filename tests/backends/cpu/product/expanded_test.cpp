// Products of operands that are one along an axis (a stride of 0), whatever implementation takes them.
#include <array>

#include "backends/cpu/product/check.h"
#include "kernel/contractions.h"

namespace npusim::cpu::product {
namespace {

struct Sizes {
  int64_t batches, rows, columns, depth;
};

// Bits of `expanded`: batch, rows and depth of a, then batch, depth and columns of b.
Kernel expanded_product(const Sizes& s, DType type, unsigned expanded) {
  KernelBuilder b({s.batches, s.rows, s.columns});
  const auto operand = [&](std::array<int64_t, 3> extents, std::array<int, 3> dims, unsigned bits) {
    Coords at;
    Shape shape;
    for (size_t i = 0; i < 3; ++i) {
      const bool one = (bits >> i & 1) != 0;
      shape.push_back(one ? 1 : extents[i]);
      at.emplace_back(b.dim(dims[i]) * (one ? 0 : 1));
    }
    return std::pair(b.input({type, shape}), at);
  };
  const auto [x, x_at] = operand({s.batches, s.rows, s.depth}, {0, 1, 3}, expanded & 7);
  const auto [w, w_at] = operand({s.batches, s.depth, s.columns}, {0, 3, 2}, expanded >> 3);
  const int out = b.output({DType::f32, {s.batches, s.rows, s.columns}});
  b.store(out, Coords{b.dim(0), b.dim(1), b.dim(2)}, b.contract(ContractionKind::matmul, {s.depth}, x, x_at, w, w_at));
  return b.finish("expanded");
}

TEST(ContractionExpanded, AlongEveryAxis) {
  constexpr Sizes all[] = {{1, 16, 16, 16},   {1, 5, 31, 5},   {4, 33, 17, 20}, {1, 64, 64, 64},
                           {1, 130, 300, 70}, {1, 3, 40, 300}, {33, 2, 3, 4},   {40, 8, 8, 8},
                           {1, 1, 50, 60},    {2, 70, 1, 90},  {1, 8, 40, 300}, {2, 20, 64, 260}};
  for (const Sizes& sizes : all)
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (unsigned expanded = 0; expanded < 64; ++expanded) {
        if (type != DType::f32 && expanded % 7 != 1) continue;
        check_contraction(expanded_product(sizes, type, expanded));
        ASSERT_FALSE(::testing::Test::HasFailure())
            << sizes.batches << " of " << sizes.rows << "x" << sizes.depth << " times " << sizes.columns << ", "
            << dtype_name(type) << ", expanded " << expanded;
      }
}

}  // namespace
}  // namespace npusim::cpu::product
