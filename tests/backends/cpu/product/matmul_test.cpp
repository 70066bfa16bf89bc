// Matmul steps against the scalar interpreter: ranks, strides, dtypes, epilogues, empty extents.
#include <functional>
#include <limits>

#include "backends/cpu/product/check.h"
#include "kernel/contractions.h"

namespace npusim::cpu::product {
namespace {

TEST(ContractionMatmul, Sizes) {
  for (int64_t m : {1, 2, 3, 4, 5, 13, 64, 200})
    for (int64_t n : {1, 10, 32, 33, 130})
      for (int64_t k : {1, 7, 16, 100})
        check_contraction(linear(m, n, k, DType::f32, DType::f32, DType::f32, plain), {1});
}

TEST(ContractionMatmul, DeepAndWide) {
  check_contraction(linear(7, 600, 1100, DType::f32, DType::f32, DType::f32, plain), {1});
  check_contraction(linear(200, 40, 600, DType::f32, DType::f32, DType::f32, plain), {1});
  check_contraction(linear(1, 700, 1100, DType::bf16, DType::bf16, DType::bf16, plain), {1});
}

// Rows packed tile by tile, in shares of the threads.
TEST(ContractionMatmul, ManyRowsColumnsAndDepths) {
  check_contraction(linear(64, 256, 256, DType::f16, DType::f16, DType::f16, plain), {1});
  check_contraction(linear(67, 300, 790, DType::bf16, DType::bf16, DType::f32, plain), {1});
  check_contraction(linear(130, 257, 400, DType::f32, DType::f16, DType::bf16, plain), {1});
  check_contraction(linear(65, 340, 385, DType::f16, DType::f32, DType::f32, plain), {-1});
  check_contraction(linear(290, 256, 257, DType::f16, DType::f16, DType::f32, plain), {1});
  check_contraction(linear(64, 2200, 480, DType::f32, DType::f32, DType::f32, plain), {1});
}

// Float32 rows in every layout: side by side, cut out of longer ones, cache sets shared and not, in
// batches.
TEST(ContractionMatmul, RowsWhereTheyAre) {
  for (int64_t row : {300, 515, 1024})
    for (int64_t n : {37, 140})
      for (int64_t m : {13, 70}) {
        KernelBuilder b({m, n});
        const int x = b.input({DType::f32, {m, row}}), w = b.input({DType::f32, {n, 270}}),
                  residual = b.input({DType::f32, {m, n}}), out = b.output({DType::f32, {m, n}});
        Ex leaf = b.contract(ContractionKind::matmul, {270}, x, Coords{b.dim(0), b.dim(2) + (row - 270) / 2}, w,
                             Coords{b.dim(1), b.dim(2)});
        b.store(out, min(leaf + b.load_broadcast(residual), 2.0));
        check_contraction(b.finish("rows"), {1}, {}, 1e-4);
      }
  for (int constant : {1, -1}) {
    KernelBuilder b({3, 20, 150});
    const int x = b.input({DType::f32, {20, 3, 280}}), w = b.input({DType::f32, {3, 280, 150}}),
              out = b.output({DType::f32, {3, 20, 150}});
    b.store(out, b.contract(ContractionKind::matmul, {280}, x, Coords{b.dim(1), b.dim(0), b.dim(3)}, w,
                            Coords{b.dim(0), b.dim(3), b.dim(2)}));
    check_contraction(b.finish("batches"), {constant}, {}, 1e-4);
  }
}

// A bias, a residual of the output's type or another and a clamp, behind whole tiles and cut ones.
TEST(ContractionMatmul, Residuals) {
  for (DType out : {DType::f32, DType::f16, DType::bf16})
    for (DType residual : {out, DType::f32})
      for (int64_t n : {32, 75})
        for (int64_t k : {80, 600}) {
          KernelBuilder b({20, n});
          const int x = b.input({out, {20, k}}), w = b.input({out, {n, k}}), bias = b.input({DType::f32, {n}}),
                    rest = b.input({residual, {20, n}}), y = b.output({out, {20, n}});
          Ex leaf =
              b.contract(ContractionKind::matmul, {k}, x, Coords{b.dim(0), b.dim(2)}, w, Coords{b.dim(1), b.dim(2)});
          b.store(y, max(leaf + b.load_broadcast(bias) + b.load_broadcast(rest), 0.0));
          check_contraction(b.finish("residual"), {1, 2}, {}, 1e-4);
        }
}

// Rows in place or widened: every tile, columns that fill its last vector and that do not, in rows with something
// between them, which stays.
TEST(ContractionMatmul, RowsInPlace) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int64_t m : {16, type == DType::f32 ? 75 : 29})
      for (int64_t n : {8, 24, 48, 70, 145})
        for (int64_t k : {1, 9, 40}) {
          KernelBuilder b({m, n});
          const int x = b.input({type, {m, k + 3}}), w = b.input({DType::f32, {n, k}}),
                    bias = b.input({k == 40 ? type : DType::f32, {n}}), rest = b.input({type, {m, n + 7}}),
                    y = b.output({type, {m, n + 5}});
          const Coords at{b.dim(0), b.dim(1) + 2};
          Ex leaf = b.contract(ContractionKind::matmul, {k}, x, Coords{b.dim(0), b.dim(2) + 1}, w,
                               Coords{b.dim(1), b.dim(2)});
          if (n % 16 == 0) leaf = leaf + b.load_broadcast(bias);
          if (n % 3 != 0) leaf = leaf + b.load(rest, at);
          b.store(y, at, k == 9 ? min(max(leaf, -1.0), 6.0) : leaf);
          const Kernel kernel = b.finish("rows");
          const std::string step = prepare(kernel, {1, 2}, make_context(2)).step->describe();
          EXPECT_NE(step.find(type == DType::f32 ? "rows in place" : "rows widened"), std::string::npos) << step;
          check_contraction(kernel, {1, 2}, {}, 1e-5);
          if (::testing::Test::HasFatalFailure()) return;
        }
  // More panels than stay in the cache, whose groups fetch one another; rows that are widened block by block.
  check_contraction(linear(20, 400, 1100, DType::f32, DType::f32, DType::f32, plain), {1}, {}, 1e-5);
  check_contraction(linear(1000, 20, 24, DType::f16, DType::f32, DType::f16, plain), {1}, {}, 1e-5);
  check_contraction(linear(70, 40, 1000, DType::bf16, DType::f32, DType::f32, plain), {1}, {}, 1e-5);
}

// With arithmetic for bf16, which oneDNN emulates on any AVX-512, the operands are taken as they are.
TEST(ContractionMatmul, Bf16Operands) {
  if (!library_has_avx512()) GTEST_SKIP() << "no AVX-512, without which oneDNN has no bf16";
  Context context = make_context(2);
  context.bf16 = true;
  for (DType out : {DType::bf16, DType::f32}) {
    const Kernel kernel = linear(67, 300, 190, DType::bf16, DType::bf16, out,
                                 [](KernelBuilder&, Ex x, Ex bias, Ex residual) { return x + bias + residual; });
    const std::string step = prepare(kernel, {1, 2}, context).step->describe();
    EXPECT_EQ(step.find("packed"), std::string::npos) << step;
    check_contraction(kernel, {1, 2});
  }
}

TEST(ContractionMatmul, Types) {
  for (DType x : {DType::f32, DType::f16, DType::bf16})
    for (DType w : {DType::f32, DType::f16, DType::bf16})
      for (DType out : {DType::f32, DType::f16, DType::bf16})
        for (int64_t m : {1, 3, 20})
          for (int constant : {1, -1}) check_contraction(linear(m, 45, 50, x, w, out, plain), {constant});
}

TEST(ContractionMatmul, Epilogues) {
  for (int64_t m : {1, 4, 30}) {
    auto check = [&](auto epilogue) {
      check_contraction(linear(m, 70, 40, DType::f32, DType::f32, DType::f32, epilogue), {1, 2});
      check_contraction(linear(m, 70, 40, DType::bf16, DType::bf16, DType::bf16, epilogue), {1, 2});
    };
    check([](KernelBuilder&, Ex x, Ex bias, Ex) { return x + bias; });
    check([](KernelBuilder&, Ex x, Ex bias, Ex) { return max(x + bias, 0.0); });
    check([](KernelBuilder&, Ex x, Ex bias, Ex residual) { return max(x * 0.5 + bias + residual, 0.0); });
    check([](KernelBuilder&, Ex x, Ex bias, Ex) {
      x = x + bias;
      return x * 0.5 * (erf(x * 0.70710678) + 1.0);
    });
    check([](KernelBuilder&, Ex x, Ex, Ex residual) { return residual * (x / (1.0 + exp(-x))); });
    check([](KernelBuilder& b, Ex x, Ex, Ex) { return x + b.cast(b.index(0) * 3 + b.index(1), Scalar::f32); });
  }
}

// What a tile ends in while it is in the cache or in registers: an activation between bias and residual.
TEST(ContractionMatmul, Activations) {
  using Function = Ex (*)(Ex);
  using Tail = std::function<Ex(KernelBuilder&, Ex, Ex, Ex)>;
  for (const Function activation : {
           Function([](Ex x) { return 1.0 / (1.0 + exp(-x)); }),
           Function([](Ex x) { return tanh(x); }),
           Function([](Ex x) { return x / (1.0 + exp(-x)); }),
           Function([](Ex x) { return x * min(max(x + 3.0, 0.0), 6.0) / 6.0; }),
           Function([](Ex x) { return x * 0.5 * (erf(x * 0.70710678) + 1.0); }),
           Function([](Ex x) { return x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.79788456) + 1.0); }),
       }) {
    const Tail biased = [activation](KernelBuilder&, Ex x, Ex bias, Ex) { return activation(x + bias); };
    const Tail between = [activation](KernelBuilder&, Ex x, Ex bias, Ex residual) {
      return max(activation(x + bias) + residual, -0.125);
    };
    for (DType type : {DType::f16, DType::bf16})
      for (int64_t m : {5, 70})
        for (const Tail& tail : {biased, between})
          check_contraction(linear(m, 270, 256, type, type, type, tail), {1, 2});
    for (int64_t n : {5, 24, 37})
      for (const Tail& tail : {biased, between})
        for (DType type : {DType::f32, DType::f16}) {
          const Kernel kernel = linear(21 + n, n, 30, type, DType::f32, type, tail);
          const std::string step = prepare(kernel, {1, 2}, make_context(2)).step->describe();
          EXPECT_NE(step.find(" rows "), std::string::npos) << step;
          check_contraction(kernel, {1, 2});
        }
  }
}

TEST(ContractionMatmul, BatchesAndTransposes) {
  for (int64_t q : {1, 3, 40}) {
    KernelBuilder b({2, 3, q, 50});  // attention scores of [2, q, 3, 20] and [2, 50, 3, 20]
    const int x = b.input({DType::f32, {2, q, 3, 20}}), w = b.input({DType::f16, {2, 50, 3, 20}});
    const int out = b.output({DType::f32, {2, 3, q, 50}});
    b.store(out, b.contract(ContractionKind::matmul, {20}, x, Coords{b.dim(0), b.dim(2), b.dim(1), b.dim(4)}, w,
                            Coords{b.dim(0), b.dim(3), b.dim(1), b.dim(4)}) *
                     0.25);
    check_contraction(b.finish("scores"));
  }
  KernelBuilder b({4, 9, 37});  // both operands transposed, the result too
  const int x = b.input({DType::f32, {4, 21, 9}}), w = b.input({DType::f32, {21, 37}}),
            out = b.output({DType::f32, {37, 4, 9}});
  Ex leaf =
      b.contract(ContractionKind::matmul, {21}, x, Coords{b.dim(0), b.dim(3), b.dim(1)}, w, Coords{b.dim(3), b.dim(2)});
  b.store(out, Coords{b.dim(2), b.dim(0), b.dim(1)}, leaf);
  check_contraction(b.finish("transposed"), {1});
}

TEST(ContractionMatmul, RowsInRuns) {  // of neighbours, each run transposed when it is packed
  for (DType type : {DType::f32, DType::bf16})
    for (int64_t run : {9, 50}) {
      KernelBuilder b({5, run, 33});
      const int x = b.input({type, {5, 19, run}}), w = b.input({type, {33, 19}}),
                out = b.output({DType::f32, {5, run, 33}});
      b.store(out, b.contract(ContractionKind::matmul, {19}, x, Coords{b.dim(0), b.dim(3), b.dim(1)}, w,
                              Coords{b.dim(2), b.dim(3)}));
      check_contraction(b.finish("runs"), {1});
    }
}

TEST(ContractionMatmul, GroupedQueries) {  // [1, kv head, group, q] rows: the weight has no group dimension
  KernelBuilder b({2, 3, 5, 40});
  const int x = b.input({DType::bf16, {2, 3, 5, 16}}), w = b.input({DType::bf16, {2, 40, 16}}),
            out = b.output({DType::f32, {2, 3, 5, 40}});
  b.store(out, b.contract(ContractionKind::matmul, {16}, x, Coords{b.dim(0), b.dim(1), b.dim(2), b.dim(4)}, w,
                          Coords{b.dim(0), b.dim(3), b.dim(4)}));
  check_contraction(b.finish("grouped"));
}

TEST(ContractionMatmul, SeveralReducedAndStores) {
  KernelBuilder b({6, 35});
  const int x = b.input({DType::f32, {3, 6, 11}}), w = b.input({DType::f32, {35, 11, 3}});
  const int out = b.output({DType::f32, {6, 35}}), half = b.output({DType::f16, {35, 6}});
  Ex leaf = b.contract(ContractionKind::matmul, {3, 11}, x, Coords{b.dim(2), b.dim(0), b.dim(3)}, w,
                       Coords{b.dim(1), b.dim(3), b.dim(2)});
  b.store(out, leaf);
  b.store(half, Coords{b.dim(1), b.dim(0)}, tanh(leaf));
  check_contraction(b.finish("einsum"), {1});
}

TEST(ContractionMatmul, GuardsReversalAndConstantOnTheLeft) {
  KernelBuilder b({8, 12});
  const int x = b.input({DType::f32, {6, 10}}), w = b.input({DType::f16, {9, 12}}),
            out = b.output({DType::f32, {8, 12}});
  b.store(out, b.contract(ContractionKind::matmul, {9}, x, Coords{b.dim(0) + -1, b.dim(2) * -1 + 8}, w,
                          Coords{b.dim(2) + 2, b.dim(1)}));
  check_contraction(b.finish("guarded"));
  KernelBuilder c({40, 3});  // a is the weight
  const int left = c.input({DType::bf16, {40, 64}}), right = c.input({DType::f32, {64, 3}}),
            to = c.output({DType::f32, {40, 3}});
  c.store(to, c.contract(ContractionKind::matmul, {64}, left, Coords{c.dim(0), c.dim(2)}, right,
                         Coords{c.dim(2), c.dim(1)}));
  check_contraction(c.finish("left"), {0});
}

TEST(ContractionMatmul, EmptyAndScalar) {
  check_contraction(linear(0, 4, 3, DType::f32, DType::f32, DType::f32, plain), {1});
  check_contraction(
      linear(3, 40, 0, DType::f32, DType::f32, DType::f32, [](KernelBuilder&, Ex x, Ex bias, Ex) { return x + bias; }),
      {1});
  check_contraction(linear(30, 40, 0, DType::f32, DType::f32, DType::f32, plain));
  KernelBuilder b{Shape{}};
  const int x = b.input({DType::f32, {33}}), y = b.input({DType::f32, {33}}), out = b.output({DType::f32, {}});
  b.store(out, b.contract(ContractionKind::matmul, {33}, x, Coords{b.dim(0)}, y, Coords{b.dim(0)}));
  check_contraction(b.finish("dot"));
}

TEST(ContractionMatmul, DimensionOfNeitherOperand) {
  KernelBuilder b({5, 4, 33});
  const int x = b.input({DType::f32, {4, 20}}), w = b.input({DType::f32, {33, 20}}),
            y = b.input({DType::f32, {5, 4, 33}});
  const int out = b.output({DType::f32, {5, 4, 33}});
  b.store(out, b.load_broadcast(y) + b.contract(ContractionKind::matmul, {20}, x, Coords{b.dim(1), b.dim(3)}, w,
                                                Coords{b.dim(2), b.dim(3)}));
  check_contraction(b.finish("spread"), {1});
}

}  // namespace
}  // namespace npusim::cpu::product
