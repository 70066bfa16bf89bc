// Kernels that transform rows: what the interpreter says, what their products say, and what is no such kernel.
#include "kernel/facts/fourier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "kernel/evaluate.h"
#include "kernel/facts/compact.h"
#include "kernel/fourier_kernels.h"
#include "kernel/fuse/fuse.h"
#include "kernel/fuse/unfuse.h"

namespace npusim::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void run(const Kernel& kernel, std::vector<HostTensor>& memory) {
  std::vector<void*> args;
  for (HostTensor& t : memory) args.push_back(t.data.data());
  evaluate(kernel, args);
}

double element(const HostTensor& t, int64_t i) { return load_double(t.data.data(), t.type.dtype, i); }

// By the definition.
TEST(Fourier, IsTheSumOfItsTurns) {
  Draws d(1);
  for (const int64_t n : {2, 3, 4, 5, 7, 12, 16, 31, 36, 97})
    for (const FourierKind kind : {FourierKind::complex, FourierKind::real, FourierKind::signal}) {
      FourierSpec spec{.dtype = DType::f64, .kind = kind, .rows = {2}, .length = n, .given = n, .kept = n};
      if (kind == FourierKind::signal) spec.given = n / 2 + 1;
      FourierCase c = fourier_case(d, spec);
      ASSERT_THAT(check_kernel(c.kernel), ElementsAre());
      run(c.kernel, c.memory);
      const HostTensor &re = c.memory[0], &im = c.memory[1];
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t k = 0; k < n; ++k) {
          std::complex<double> sum = 0;
          for (int64_t j = 0; j < spec.given; ++j) {
            const double sign = kind == FourierKind::signal ? 1 : -1;
            const bool whole = j == 0 || 2 * j == n;
            std::complex<double> z(element(re, row * spec.given + j),
                                   kind == FourierKind::real ? 0 : element(im, row * spec.given + j));
            if (kind == FourierKind::signal) z = whole ? z.real() : 2.0 * z;
            sum += z * std::polar(
                           1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
          }
          const size_t first = kind == FourierKind::real ? 1 : 2;
          EXPECT_NEAR(element(c.memory[first], row * n + k), sum.real(), 1e-11) << n;
          if (kind == FourierKind::signal) continue;
          EXPECT_NEAR(element(c.memory[first + 1], row * n + k), sum.imag(), 1e-11) << n;
        }
    }
}

void check_steps(const FourierCase& c) {
  ASSERT_THAT(check_kernel(c.kernel), ElementsAre()) << to_text(c.kernel);
  const Unfused unfused = unfuse(c.kernel);
  std::vector<HostTensor> expected = c.memory, found = c.memory;
  run(c.kernel, expected);
  for (const Unfused::Scratch& s : unfused.scratch) found.push_back(make_tensor({s.dtype, {s.elements}}));
  for (const BoundKernel& step : unfused.steps) {
    ASSERT_THAT(check_kernel(step.kernel), ElementsAre()) << to_text(step.kernel);
    ASSERT_FALSE(has_fourier(step.kernel));
    std::vector<void*> args;
    for (const int v : step.values) args.push_back(found[static_cast<size_t>(v)].data.data());
    evaluate(step.kernel, args);
  }
  for (size_t i = 0; i < c.kernel.args.size(); ++i) {
    const KernelArg& arg = c.kernel.args[i];
    if (!arg.written) continue;
    ASSERT_LT(far(expected[i], found[i]), 3 * bound_of(arg.dtype)) << i << "\n" << to_text(c.kernel);
  }
}

TEST(Fourier, ProductsGiveTheSame) {
  Draws d(2);
  for (int n = 0; n < 120; ++n) check_steps(fourier_case(d, draw_fourier(d, d.whole(2, 40))));
}

// By two lengths, by three, and as a convolution.
TEST(Fourier, ProductsOfLongRows) {
  Draws d(3);
  for (const int64_t length : {257, 300, 512, 514, 521, 1042, 4100})
    for (const FourierKind kind : {FourierKind::complex, FourierKind::real, FourierKind::signal})
      for (const DType dtype : {DType::f32, DType::f64}) {
        if (length > 600 && (kind == FourierKind::complex || dtype == DType::f64)) continue;
        FourierSpec s{.dtype = dtype, .kind = kind, .rows = {2}, .length = length, .given = length, .kept = length};
        if (kind == FourierKind::signal) s.given = length / 2 + 1;
        if (kind == FourierKind::real) s.kept = length / 2 + 1;
        ASSERT_NO_FATAL_FAILURE(check_steps(fourier_case(d, s)));
      }
}

// Nothing is copied that products can read and store themselves.
TEST(Fourier, TheLastProductStores) {
  const auto steps = [](FourierKind kind, int64_t length) {
    FourierSpec s{.kind = kind, .rows = {2, 3}, .length = length, .given = length, .kept = length};
    if (kind == FourierKind::signal) s.given = length / 2 + 1;
    if (kind == FourierKind::real) s.kept = length / 2 + 1;
    std::vector<std::string> names;
    for (const BoundKernel& step : unfuse(fourier_kernel(s)).steps)
      names.push_back(step.kernel.name.substr(step.kernel.name.find('_') + 1));
    return names;
  };
  EXPECT_THAT(steps(FourierKind::real, 60), ElementsAre("matrix", "sum"));
  EXPECT_THAT(steps(FourierKind::signal, 61), ElementsAre("pack", "matrix", "sum"));
  EXPECT_THAT(steps(FourierKind::signal, 60), ElementsAre("half_twiddles", "pack", "matrix", "sum"));
  EXPECT_THAT(steps(FourierKind::real, 1000), ElementsAre("matrix", "sum", "twiddles", "twiddle", "matrix", "sum"));
  EXPECT_THAT(steps(FourierKind::complex, 1000),
              ElementsAre("pack", "matrix", "sum", "twiddles", "twiddle", "matrix", "sum"));
}

// What is imaginary in bins that are real is 0 where the sums have no number.
TEST(Fourier, RealBinsStayReal) {
  Draws d(4);
  FourierCase c = fourier_case(d, {.kind = FourierKind::real, .rows = {}, .length = 8, .given = 8, .kept = 5});
  store_double(c.memory[0].data.data(), DType::f32, 3, INFINITY);
  run(c.kernel, c.memory);
  EXPECT_EQ(element(c.memory[2], 0), 0);
  EXPECT_EQ(element(c.memory[2], 4), 0);
  EXPECT_TRUE(std::isnan(element(c.memory[2], 1)) || std::isinf(element(c.memory[2], 1)));
}

TEST(Fourier, HasOneForm) {
  const Kernel sound = fourier_kernel({.rows = {3}, .length = 8, .given = 8, .kept = 5, .scale = 0.5});
  ASSERT_THAT(check_kernel(sound), ElementsAre());
  const auto problem = [&](auto&& change) {
    Kernel k = sound;
    change(k);
    const auto problems = check_kernel(k);
    return problems.empty() ? std::string() : problems[0];
  };
  EXPECT_THAT(problem([](Kernel& k) { k.row_dims = 2; }), HasSubstr("along one dimension"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].accumulate = true; }), HasSubstr("as it is, or times a constant"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].expr = 0; }), HasSubstr("as it is, or times a constant"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].expr = 1000; }), HasSubstr("as it is, or times a constant"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[1].expr = k.stores[0].expr; }), HasSubstr("each part once"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores.push_back(k.stores[0]); }), HasSubstr("more results"));
  EXPECT_THAT(problem([](Kernel& k) { k.space.back() = 0; }), HasSubstr("no elements"));
  EXPECT_THAT(problem([](Kernel& k) {  // of one element that is read again and again
                k.space.back() = int64_t{1} << 40;
                for (Access& a : k.accesses) a.strides.back() = 0;
              }),
              HasSubstr("longer than what any argument has"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores.clear(); }), HasSubstr("nothing but load"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].offset = -1; }), HasSubstr("first bins"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].coeffs[0] = 1; }), HasSubstr("first bins"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].coeffs.clear(); }), HasSubstr("first bins"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.strides.clear(); }), HasSubstr("first bins"));
  EXPECT_THAT(problem([](Kernel& k) {
                k.accesses[0].guards.push_back({{1, 0}, 0, 4, 0});
              }),
              HasSubstr("from its beginning"));
  EXPECT_THAT(problem([](Kernel& k) {
                k.exprs.push_back({.op = ExprOp::neg, .type = Scalar::f32, .in = {0, -1, -1}});
              }),
              HasSubstr("nothing but load"));
  EXPECT_THAT(problem([](Kernel& k) {
                for (Expr& e : k.exprs)
                  if (e.op == ExprOp::fourier_re) e.type = Scalar::f64;
              }),
              HasSubstr("ill-typed"));
}

TEST(Fourier, OfOneElementIsItself) {
  Kernel k = fourier_kernel({.rows = {3}, .length = 1, .given = 1, .kept = 1});
  const Kernel before = k;
  drop_unit_dims(k);
  EXPECT_FALSE(has_fourier(k));
  EXPECT_THAT(check_kernel(k), ElementsAre());
}

// A copy's strides become the transform's own; anything else stays a kernel before or behind it.
TEST(Fourier, TakesCopiesOnly) {
  const BoundKernel transform{
      fourier_kernel({.kind = FourierKind::real, .rows = {3}, .length = 8, .given = 8, .kept = 5}), {1, 2, 3}};
  const auto of_transposed = [](bool negative) {
    KernelBuilder k({3, 8});
    const Coord at[] = {k.dim(1), k.dim(0)};
    const Ex x = k.load(k.input({DType::f32, {8, 3}}), at);
    k.store(k.output({DType::f32, {3, 8}}), negative ? -x : x);
    return BoundKernel{k.finish("producer"), {0, 1}};
  };
  const auto folded = inline_value(transform, of_transposed(false), 1, false, {});
  ASSERT_TRUE(folded);
  EXPECT_THAT(check_kernel(folded->kernel), ElementsAre());
  EXPECT_FALSE(inline_value(transform, of_transposed(true), 1, false, {}));
}

}  // namespace
}  // namespace npusim::test
