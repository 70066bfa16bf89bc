// Many small products side by side: every size of tile, remainder, layout and end.
#include "backends/cpu/allocations.h"
#include "backends/cpu/product/check.h"
#include "kernel/contractions.h"

namespace npusim::cpu::product {
namespace {

std::string described(const Kernel& kernel) { return prepare(kernel, {}, make_context(2)).step->describe(); }

void check_side_by_side(const Kernel& kernel, bool epilogue) {
  const std::string step = described(kernel);
  ASSERT_NE(step.find("side by side"), std::string::npos) << step;
  ASSERT_EQ(step.find("epilogue") != std::string::npos, epilogue) << step;
  check_contraction(kernel);
}

struct Case {
  int64_t batches, m, n, k;
  DType a = DType::f32, b = DType::f32, out = DType::f32;
};
// f(builder, leaf) of [batches, m, k] times [batches, k, n].
template <typename Epilogue>
Kernel small(const Case& c, Epilogue&& epilogue) {
  KernelBuilder b({c.batches, c.m, c.n});
  const int x = b.input({c.a, {c.batches, c.m, c.k}}), w = b.input({c.b, {c.batches, c.k, c.n}}),
            bias = b.input({DType::f32, {c.n}}), rest = b.input({c.a, {c.batches, c.m, c.n}}),
            out = b.output({c.out, {c.batches, c.m, c.n}});
  Ex leaf = b.contract(ContractionKind::matmul, {c.k}, x, Coords{b.dim(0), b.dim(1), b.dim(3)}, w,
                       Coords{b.dim(0), b.dim(3), b.dim(2)});
  b.store(out, epilogue(b, leaf, bias, rest));
  return b.finish("small");
}
Ex nothing(KernelBuilder&, Ex leaf, int, int) { return leaf; }

TEST(SideBySide, Sizes) {
  for (int64_t batches : {2, 5, 16, 19, 40})
    for (const Case& c : {Case{0, 1, 1, 3},
                          {0, 3, 1, 3},
                          {0, 1, 3, 2},
                          {0, 2, 2, 2},
                          {0, 3, 3, 3},
                          {0, 4, 5, 6},
                          {0, 5, 3, 7},
                          {0, 8, 8, 8},
                          {0, 9, 2, 20},
                          {0, 1, 2, 100},
                          {0, 12, 13, 1}}) {
      Case at = c;
      at.batches = batches;
      check_side_by_side(small(at, nothing), false);
      if (::testing::Test::HasFatalFailure()) return;
    }
  // More than a share for each of two threads.
  check_side_by_side(small({1000, 3, 3, 3}, nothing), false);
  EXPECT_EQ(described(small({20, 20, 20, 20}, nothing)).find("side by side"), std::string::npos);
}

TEST(SideBySide, TypesAndEnds) {
  for (DType a : {DType::f32, DType::f16, DType::bf16})
    for (DType b : {DType::f32, DType::f16, DType::bf16})
      for (DType out : {DType::f32, DType::f16}) {
        check_side_by_side(small({37, 3, 5, 4, a, b, out}, nothing), out != DType::f32);
        check_side_by_side(small({50, 2, 1, 1, a, b, out}, nothing), out != DType::f32);
        if (::testing::Test::HasFatalFailure()) return;
      }
  const Case c{37, 3, 5, 4};
  check_side_by_side(
      small(c, [](KernelBuilder& b, Ex x, int, int rest) { return max(x + b.load_broadcast(rest), 0.0); }), false);
  check_side_by_side(small(c, [](KernelBuilder& b, Ex x, int bias, int) { return x * 0.5 + b.load_broadcast(bias); }),
                     false);
  check_side_by_side(
      small(c, [](KernelBuilder& b, Ex x, int bias,
                  int rest) { return min(max(x + b.load_broadcast(bias) + b.load_broadcast(rest), -1.0), 1.0); }),
      false);
  check_side_by_side(small(c, [](KernelBuilder& b, Ex x, int bias, int) { return tanh(x + b.load_broadcast(bias)); }),
                     true);
  // Several chunks of results meet it.
  check_side_by_side(small({900, 3, 5, 4}, [](KernelBuilder&, Ex x, int, int) { return x * x; }), true);
}

// Matrices transposed, batches of two dimensions in another order than in memory, or shared, and results with gaps.
TEST(SideBySide, Layouts) {
  for (bool transposed : {false, true})
    for (bool gaps : {false, true}) {
      KernelBuilder b({6, 7, 3, 4});
      const int x = b.input({DType::f32, {7, 6, 3, 5}}), w = b.input({DType::f32, {6, 4, 5}}),
                out = b.output({DType::f32, {6, 7, 3 + gaps, 4 + gaps}});
      Coords at{b.dim(0), b.dim(1), b.dim(2), b.dim(3)};
      Coords right{b.dim(0), b.dim(3), b.dim(4)};
      Coords left{b.dim(1), b.dim(0), b.dim(2), b.dim(4)};
      Ex leaf = transposed ? b.contract(ContractionKind::matmul, {5}, w, right, x, left)
                           : b.contract(ContractionKind::matmul, {5}, x, left, w, right);
      b.store(out, at, leaf);
      check_contraction(b.finish("layouts"));
    }
  // Each matrix of one operand meets all of the other; the result's matrices are transposed.
  KernelBuilder b({30, 3, 4});
  const int x = b.input({DType::f32, {30, 2, 3}}), w = b.input({DType::f32, {30, 4, 2}}),
            out = b.output({DType::f32, {30, 4, 3}});
  b.store(out, Coords{b.dim(0), b.dim(2), b.dim(1)},
          b.contract(ContractionKind::matmul, {2}, x, Coords{b.dim(0), b.dim(3), b.dim(1)}, w,
                     Coords{b.dim(0), b.dim(2), b.dim(3)}));
  check_side_by_side(b.finish("transposed"), false);
}

TEST(SideBySide, KeepsSpecialValues) {
  for (double special : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    check_contraction(small({21, 3, 3, 3}, [](KernelBuilder&, Ex x, int, int) { return max(x, 0.0); }), {},
                      [&](ContractionRun& run) { store_double(run.memory[0].data(), DType::f32, 30, special); });
}

TEST(SideBySide, RunAllocatesNothing) {
  for (const bool epilogue : {false, true}) {
    const Kernel kernel =
        small({600, 3, 5, 4}, [&](KernelBuilder&, Ex x, int, int) { return epilogue ? tanh(x) : max(x, 0.0); });
    ContractionRun run = prepare(kernel, {}, make_context(2));
    run.step->run();
    const int64_t before = allocations();
    run.step->run();
    EXPECT_EQ(allocations() - before, 0);
  }
}

}  // namespace
}  // namespace npusim::cpu::product
