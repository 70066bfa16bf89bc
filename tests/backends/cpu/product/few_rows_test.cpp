// Few rows times a matrix: the loops alone, with every number of rows and every remainder, and the steps they are in.
#include "backends/cpu/product/gemv/few_rows.h"

#include <cmath>

#include "backends/cpu/product/check.h"
#include "backends/cpu/product/gemv/gemv.h"
#include "kernel/contractions.h"

namespace npusim::cpu::product {
namespace {

// A matrix of random numbers among NaN, which nothing may read into a result, at the end of its memory.
struct Weights {
  std::vector<std::byte> memory;
  const void* first;
  Weights(DType type, int64_t rows, int64_t columns, int64_t stride) {
    constexpr int64_t margin = 8;
    const auto size = static_cast<int64_t>(dtype_size(type));
    const int64_t elements = margin + (rows - 1) * stride + columns;  // nothing behind the last
    memory.resize(static_cast<size_t>(elements * size));
    for (int64_t i = 0; i < elements; ++i) store_double(memory.data(), type, i, std::nan(""));
    std::mt19937 random(3);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        store_double(memory.data(), type, margin + r * stride + c,
                     std::uniform_real_distribution<double>(-1, 1)(random));
    first = memory.data() + margin * size;
  }
};

struct Case {
  DType type;
  int64_t rows, columns, depth, gap;  // elements between rows of the weights
};

// Σ_k x[r, k] · w(k, n) with either order of the weights; what lies around the results stays.
void check(const Case& c, bool along_columns, decltype(&gemv::add_weighted) add = gemv::add_weighted) {
  SCOPED_TRACE(fmt::format("{} {}x{}x{} gap {}{}", dtype_name(c.type), c.rows, c.columns, c.depth, c.gap,
                           along_columns ? " along the columns" : ""));
  const int64_t stride = (along_columns ? c.columns : c.depth) + c.gap, ld_x = c.depth + 16, ld = c.columns + 3;
  const Weights w(c.type, along_columns ? c.depth : c.columns, along_columns ? c.columns : c.depth, stride);
  std::vector<float> x(static_cast<size_t>(c.rows * ld_x), NAN), out(static_cast<size_t>(c.rows * ld), 0.5f);
  std::mt19937 random(5);
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t k = 0; k < c.depth; ++k)
      x[static_cast<size_t>(r * ld_x + k)] = std::uniform_real_distribution<float>(-1, 1)(random);
  (along_columns ? add : gemv::dot_columns)(c.type, w.first, stride, c.columns, c.depth, x.data(), ld_x, c.rows,
                                            out.data(), ld);
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t n = 0; n < ld; ++n) {
      const float got = out[static_cast<size_t>(r * ld + n)];
      if (n >= c.columns) {
        ASSERT_EQ(got, 0.5f) << "behind row " << r;
        continue;
      }
      double want = along_columns ? 0.5 : 0, size = 1;
      for (int64_t k = 0; k < c.depth; ++k) {
        const double product = static_cast<double>(x[static_cast<size_t>(r * ld_x + k)]) *
                               load_double(w.first, c.type, along_columns ? k * stride + n : n * stride + k);
        want += product, size += std::fabs(product);
      }
      ASSERT_NEAR(got, want, 3e-7 * size) << "row " << r << ", column " << n;
    }
}

TEST(FewRows, EveryRemainder) {
  on_every_instruction_set([] {
    for (DType type : {DType::f32, DType::f16, DType::bf16})
      for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13})
        for (int64_t columns : {1, 2, 3, 5, 15, 16, 17, 35, 50})
          for (int64_t depth : {1, 2, 3, 4, 5, 7, 8, 15, 17, 24, 63, 64, 79, 130, 300})
            for (int64_t gap : {0, 5}) {
              if (gap > 0 && depth > 30) continue;
              check({type, rows, columns, depth, gap}, false);
              check({type, rows, columns, depth, gap}, true);
              check({type, rows, columns, depth, gap}, true, gemv::add_long_rows);
              if (::testing::Test::HasFatalFailure()) return;
            }
  });
}

// Weights of a sum that lie side by side and those of columns that do, in one piece and in several, behind which
// everything follows that a step ends with.
TEST(FewRows, Steps) {
  for (int64_t rows : {1, 3, 4})
    for (int64_t depth : {2, 7, 40})
      for (bool along_columns : {false, true}) {
        KernelBuilder b({rows, 2100});
        const int x = b.input({DType::f32, {rows, depth}}),
                  w = b.input({DType::f32, along_columns ? Shape{depth, 2100} : Shape{2100, depth}}),
                  bias = b.input({DType::f32, {2100}}), out = b.output({DType::f32, {rows, 2100}});
        const Coords at = along_columns ? Coords{b.dim(2), b.dim(1)} : Coords{b.dim(1), b.dim(2)};
        Ex leaf = b.contract(ContractionKind::matmul, {depth}, x, Coords{b.dim(0), b.dim(2)}, w, at);
        b.store(out, depth == 7 ? tanh(leaf + b.load_broadcast(bias)) : max(leaf + b.load_broadcast(bias), 0.0));
        const Kernel kernel = b.finish("few");
        EXPECT_TRUE(prepare(kernel, {}, make_context(2)).step->describe().starts_with("gemv"));
        check_contraction(kernel);
        check_contraction(kernel, {1});
      }
  KernelBuilder b({3, 20, 70});
  const int x = b.input({DType::f32, {3, 5}}), w = b.input({DType::bf16, {20, 5, 70}}),
            out = b.output({DType::f32, {20, 3, 70}});
  b.store(
      out, Coords{b.dim(1), b.dim(0), b.dim(2)},
      b.contract(ContractionKind::matmul, {5}, x, Coords{b.dim(0), b.dim(3)}, w, Coords{b.dim(1), b.dim(3), b.dim(2)}));
  const Kernel kernel = b.finish("runs");
  EXPECT_TRUE(prepare(kernel, {}, make_context(2)).step->describe().starts_with("gemv"));
  check_contraction(kernel);
}

// Each of several weights that are inputs is read once, where it lies.
TEST(FewRows, Batches) {
  for (int64_t batch : {2, 5})
    for (int64_t rows : {1, 2, 4, 5})
      for (int64_t depth : {1, 7, 130})
        for (bool along_columns : {false, true}) {
          KernelBuilder b({batch, rows, 70});
          const int x = b.input({DType::f32, {batch, rows, depth}}),
                    w = b.input({DType::bf16, along_columns ? Shape{batch, depth, 70} : Shape{batch, 70, depth}}),
                    bias = b.input({DType::f32, {70}}), scale = b.input({DType::f32, {batch, 1, 1}}),
                    out = b.output({DType::f32, {batch, rows, 70}});
          const Coords at = along_columns ? Coords{b.dim(0), b.dim(3), b.dim(2)} : Coords{b.dim(0), b.dim(2), b.dim(3)};
          Ex leaf = b.contract(ContractionKind::matmul, {depth}, x, Coords{b.dim(0), b.dim(1), b.dim(3)}, w, at);
          b.store(out, depth == 7 ? tanh(leaf * b.load_broadcast(scale)) : max(leaf + b.load_broadcast(bias), 0.0));
          const Kernel kernel = b.finish("few");
          const std::string step = prepare(kernel, {}, make_context(3)).step->describe();
          if (depth == 130) {
            EXPECT_EQ(step.starts_with("gemv"), rows <= gemv_max_rows) << step;
          }
          const std::string packed = prepare(kernel, {1}, make_context(3)).step->describe();
          EXPECT_FALSE(packed.starts_with("gemv")) << packed;
          check_contraction(kernel);
          check_contraction(kernel, {1});
        }
}

// Short rows meet a small weight where they lie; longer ones, and those whose results are transposed, are its columns.
TEST(FewRows, ShortRows) {
  for (int64_t depth : {2, 3, 8, 9})
    for (int64_t n : {1, 2, 3, 4})
      for (bool transposed : {false, true}) {
        KernelBuilder b({300, n});
        const int x = b.input({DType::f32, {300, depth}}), w = b.input({DType::f32, {depth, n}}),
                  out = b.output({DType::f32, transposed ? Shape{n, 300} : Shape{300, n}});
        b.store(
            out, transposed ? Coords{b.dim(1), b.dim(0)} : Coords{b.dim(0), b.dim(1)},
            b.contract(ContractionKind::matmul, {depth}, x, Coords{b.dim(0), b.dim(2)}, w, Coords{b.dim(2), b.dim(1)}));
        const Kernel kernel = b.finish("short");
        const std::string step = prepare(kernel, {}, make_context(2)).step->describe();
        const bool in_place = depth <= 8 && n > 1 && !transposed;
        EXPECT_TRUE(step.starts_with(in_place ? "matmul 300x" : "gemv")) << step;
        check_contraction(kernel);
      }
}

// A weight that is an input is packed by every run where many rows meet it.
TEST(FewRows, ManyRowsOfInputs) {
  for (int64_t n : {7, 33, 63, 200})
    for (bool transposed : {false, true}) {
      KernelBuilder b({150, n});
      const int x = b.input({DType::f32, {150, 31}}),
                w = b.input({DType::f32, transposed ? Shape{31, n} : Shape{n, 31}}),
                out = b.output({DType::f32, {150, n}});
      b.store(out, b.contract(ContractionKind::matmul, {31}, x, Coords{b.dim(0), b.dim(2)}, w,
                              transposed ? Coords{b.dim(2), b.dim(1)} : Coords{b.dim(1), b.dim(2)}));
      const Kernel kernel = b.finish("inputs");
      const std::string step = prepare(kernel, {}, make_context(2)).step->describe();
      EXPECT_NE(step.find("packed by runs"), std::string::npos) << step;
      check_contraction(kernel);
    }
}

}  // namespace
}  // namespace npusim::cpu::product
