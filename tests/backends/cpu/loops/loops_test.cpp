// The loops interpreter against the reference evaluator: elementwise kernels, views, windows, gathers.
#include <algorithm>
#include <limits>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

const std::vector<Shape> shapes{{1}, {3}, {16}, {1000}, {2, 3, 5}, {7, 33}, {4, 64, 16}, {3, 1, 129}, {70000}};

TEST(Loops, EveryUnaryOp) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (int op = static_cast<int>(ExprOp::neg); op <= static_cast<int>(ExprOp::logical_not); ++op)
    for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean, DType::f16})
      for (int range = 0; range < 3; ++range) {
        KernelBuilder b({37, 29});
        const int x = b.input({dtype, {37, 29}});
        const Ex y = b.unary(static_cast<ExprOp>(op), b.load_broadcast(x));
        const DType out = y.type() == Scalar::boolean ? DType::boolean
                          : y.type() == Scalar::i64   ? DType::i64
                          : y.type() == Scalar::f32   ? DType::f32
                                                      : DType::f64;
        b.store(b.output({out, {37, 29}}), y);
        Check check;
        check.low = range == 0 ? -1.2 : range == 1 ? -30 : -1000;
        check.high = -check.low;
        check.least = -3;
        if (dtype == DType::boolean) check.least = 0, check.most = 1;
        if (range == 1) check.special = {0, -0.0, inf, -inf, nan, 1, -1};
        check.tolerance = 1e-6;
        if (static_cast<ExprOp>(op) == ExprOp::tan || static_cast<ExprOp>(op) == ExprOp::sinh ||
            static_cast<ExprOp>(op) == ExprOp::cosh)
          check.tolerance = 1e-5;
        check_kernel_runs(b.finish(std::string(expr_op_name(static_cast<ExprOp>(op)))), check);
        if (HasFatalFailure()) return;
      }
}

// What an element gets depends neither on its neighbours nor on what stands behind the last one.
TEST(Loops, RareFunctionsLaneByLane) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> special{0.0f,   -0.0f, 1.0f, -1.0f,   inf,   -inf, nan,  1e-40f, 3e38f,
                                   -3e38f, 2.0f,  1e6f, -1e-30f, -3.7f, 4.5f, 9.1f, 9.9f,   10.2f};
  constexpr int64_t n = 211;
  std::mt19937 random(3);
  std::vector<float> x(n), y(n);
  for (auto* values : {&x, &y})
    for (float& v : *values)
      v = random() % 3 == 0 ? special[random() % special.size()] : std::uniform_real_distribution<float>(-2, 2)(random);
  for (ExprOp op : {ExprOp::tan, ExprOp::asin, ExprOp::acos, ExprOp::atan, ExprOp::sinh, ExprOp::cosh, ExprOp::asinh,
                    ExprOp::acosh, ExprOp::atanh, ExprOp::erfc, ExprOp::pow, ExprOp::fmod, ExprOp::atan2}) {
    const auto run = [&](int64_t first, int64_t count) {
      KernelBuilder b({count});
      const int p = b.input({DType::f32, {count}}), q = b.input({DType::f32, {count}});
      const Ex a = b.load_broadcast(p);
      b.store(b.output({DType::f32, {count}}),
              expr_arity(op) == 2 ? b.binary(op, a, b.load_broadcast(q)) : b.unary(op, a) + b.load_broadcast(q) * 0.0);
      std::vector<float> out(static_cast<size_t>(count)), twos(static_cast<size_t>(count), 2.0f);
      void* args[] = {x.data() + first, expr_arity(op) == 2 ? y.data() + first : twos.data(), out.data()};
      Loops(b.finish("rare"), 1).run(args);
      return out;
    };
    on_every_instruction_set([&] {
      const std::vector<float> all = run(0, n);
      for (int64_t i = 0; i < n; i += 7) {
        const float one = run(i, 1)[0], here = all[static_cast<size_t>(i)];
        EXPECT_EQ(std::memcmp(&one, &here, 4), 0) << expr_op_name(op) << " of " << x[static_cast<size_t>(i)];
      }
      const auto c_library = [op](double p, double q) {
        switch (op) {
          case ExprOp::tan:
            return std::tan(p);
          case ExprOp::asin:
            return std::asin(p);
          case ExprOp::acos:
            return std::acos(p);
          case ExprOp::atan:
            return std::atan(p);
          case ExprOp::sinh:
            return std::sinh(p);
          case ExprOp::cosh:
            return std::cosh(p);
          case ExprOp::asinh:
            return std::asinh(p);
          case ExprOp::acosh:
            return std::acosh(p);
          case ExprOp::atanh:
            return std::atanh(p);
          case ExprOp::erfc:
            return std::erfc(p);
          case ExprOp::pow:
            return std::pow(p, q);
          case ExprOp::fmod:
            return std::fmod(p, q);
          default:
            return std::atan2(p, q);
        }
      };
      for (size_t i = 0; i < n; ++i) {
        const auto want = static_cast<float>(c_library(x[i], y[i]));
        const bool near = std::fabs(all[i] - want) <= 3e-7 * std::fabs(want) + 1e-44;
        EXPECT_TRUE(near || all[i] == want || (std::isnan(want) && std::isnan(all[i])))
            << expr_op_name(op) << " of " << x[i] << " and " << y[i] << ": " << all[i] << " for " << want;
      }
    });
  }
}

// Floats of every size, and those around where one implementation ends and the next begins.
TEST(Loops, AnglesToTheLastPlace) {
  std::mt19937 random(7);
  std::vector<float> x(40000);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t bits = random();
    std::memcpy(&x[i], &bits, 4);
    const double edges[] = {std::sqrt(2.0) - 1, std::sqrt(2.0) + 1, 1e10, 8192, 30000, 1e-30, 0, 0.5, -0.5, 1, -1};
    const auto edge = static_cast<float>(edges[i % 11]);
    if (i % 4 == 0) x[i] = std::uniform_real_distribution<float>(-40, 40)(random);
    if (i % 4 == 1)  // an edge's neighbours, and those of a multiple of a quarter turn
      x[i] = std::nextafterf(i % 3 == 0 ? edge : static_cast<float>((random() % 8000) * 0.78539816339744831),
                             random() % 2 == 0 ? -1e30f : 1e30f);
    if (i % 4 == 2) x[i] = std::uniform_real_distribution<float>(-9000, 9000)(random);
    if (i % 8 == 3) x[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  const auto n = static_cast<int64_t>(x.size());
  struct Function {
    ExprOp op;
    double (*exact)(double);
  };
  for (const Function& f : {Function{ExprOp::tan, std::tan}, Function{ExprOp::atan, std::atan},
                            Function{ExprOp::asin, std::asin}, Function{ExprOp::acos, std::acos}}) {
    KernelBuilder b({n});
    b.store(b.output({DType::f32, {n}}), b.unary(f.op, b.load_broadcast(b.input({DType::f32, {n}}))));
    const Kernel kernel = b.finish("tangents");
    on_every_instruction_set([&] {
      std::vector<float> out(x.size());
      void* args[] = {x.data(), out.data()};
      Loops(kernel, 1).run(args);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = f.exact(x[i]);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(out[i])) << x[i];
          continue;
        }
        const float size = std::fabs(static_cast<float>(want));
        const double ulp = static_cast<double>(std::nextafterf(size, 1e38f)) - size;
        EXPECT_LE(std::fabs(out[i] - want), 0.8 * ulp) << expr_op_name(f.op) << " of " << x[i];
        EXPECT_EQ(std::signbit(out[i]), std::signbit(want)) << expr_op_name(f.op) << " of " << x[i];
      }
    });
  }
}

// Results around and below the least normal float, among vectors of others: the nearest float.
TEST(Loops, PowersBelowNormalFloats) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x{-inf, -87.33655f, -87.3365f, -103.97f, -103.98f, -125, -126, -149, -150, -151, -1e30f};
  std::mt19937 random(9);
  while (x.size() < 4000) {
    const bool mixed = x.size() / 64 % 2 == 0;
    x.push_back(std::uniform_real_distribution<float>(-152, mixed ? 10.0f : -84.0f)(random));
  }
  const auto n = static_cast<int64_t>(x.size());
  for (const ExprOp op : {ExprOp::exp, ExprOp::exp2}) {
    KernelBuilder b({n});
    b.store(b.output({DType::f32, {n}}), b.unary(op, b.load_broadcast(b.input({DType::f32, {n}}))));
    const Kernel kernel = b.finish("powers");
    on_every_instruction_set([&] {
      std::vector<float> out(x.size());
      void* args[] = {x.data(), out.data()};
      Loops(kernel, 1).run(args);
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i], want = op == ExprOp::exp ? std::exp(v) : std::exp2(v);
        EXPECT_LE(std::fabs(out[i] - want), 2e-7 * want + 0.51 * 0x1p-149) << expr_op_name(op) << " of " << v;
      }
    });
  }
}

// Within 2.5 units of the last place, with the argument's sign, and never above 1.
TEST(Loops, HyperbolicTangents) {
  std::mt19937 random(11);
  std::vector<float> x{0.0f, -0.0f, 1e-45f, -1e-45f, 1e-40f, -3e-39f, HUGE_VALF, -HUGE_VALF, 9.01f, 10.0f, 3e38f};
  while (x.size() < 10000) x.push_back(std::uniform_real_distribution<float>(-11, 11)(random));
  while (x.size() < 20000) x.push_back(std::exp(std::uniform_real_distribution<float>(-90, 3)(random)));
  const auto n = static_cast<int64_t>(x.size());
  KernelBuilder b({n});
  b.store(b.output({DType::f32, {n}}), tanh(b.load_broadcast(b.input({DType::f32, {n}}))));
  const Kernel kernel = b.finish("tanh");
  on_every_instruction_set([&] {
    std::vector<float> out(x.size());
    void* args[] = {x.data(), out.data()};
    Loops(kernel, 1).run(args);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::tanh(static_cast<double>(x[i]));
      const float size = std::fabs(static_cast<float>(want));
      const double ulp = static_cast<double>(std::nextafterf(size, 2)) - size;
      EXPECT_LE(std::fabs(out[i] - want), 2.5 * ulp) << x[i];
      EXPECT_LE(std::fabs(out[i]), 1) << x[i];
      EXPECT_EQ(std::signbit(out[i]), std::signbit(x[i])) << x[i];
    }
  });
}

TEST(Loops, SharesOfTheNormalDistribution) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x{0.0f, -0.0f, inf, -inf, nan, 1e-40f, -1e30f, 1e30f, 5.6568f, -5.6569f, 4, -4, 10.05f, 10.07f};
  std::mt19937 random(9);
  while (x.size() < 20000) x.push_back(std::uniform_real_distribution<float>(-11, 11)(random));
  const auto n = static_cast<int64_t>(x.size());
  for (const bool is_gelu : {true, false}) {
    KernelBuilder b({n});
    const Ex in = b.load_broadcast(b.input({DType::f32, {n}}));
    b.store(b.output({DType::f32, {n}}), is_gelu ? in * 0.5 * (erf(in * std::sqrt(0.5)) + 1.0) : erfc(in));
    const Kernel kernel = b.finish("shares");
    on_every_instruction_set([&] {
      std::vector<float> out(x.size());
      void* args[] = {x.data(), out.data()};
      Loops(kernel, 1).run(args);
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i], want = is_gelu ? v * 0.5 * std::erfc(-v * std::sqrt(0.5)) : std::erfc(v);
        const double most = is_gelu ? 1.5e-7 * std::fabs(v) : 3e-7 * want + 1.5e-45;
        const bool same = std::isnan(want) ? std::isnan(out[i]) : want == out[i] || std::fabs(out[i] - want) <= most;
        EXPECT_TRUE(same) << (is_gelu ? "gelu" : "erfc") << " of " << v << ": " << out[i] << " for " << want;
      }
    });
  }
}

TEST(Loops, EveryBinaryOpAndOperandForm) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (int op = static_cast<int>(ExprOp::add); op <= static_cast<int>(ExprOp::le); ++op)
    for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8, DType::boolean, DType::bf16})
      for (const auto& [first, second] : std::vector<std::pair<Shape, Shape>>{{{21, 50}, {21, 50}},
                                                                              {{21, 50}, {50}},
                                                                              {{21, 1}, {21, 50}},
                                                                              {{1}, {21, 50}},
                                                                              {{21, 50}, {1}},
                                                                              {{21, 1}, {50}}}) {
        const auto o = static_cast<ExprOp>(op);
        const bool integers = !is_float(dtype);
        if ((o == ExprOp::div || o == ExprOp::fmod || o == ExprOp::atan2) && integers) continue;
        if (o >= ExprOp::idiv && o <= ExprOp::shr && !integers) continue;
        if (dtype == DType::boolean && (o == ExprOp::idiv || o == ExprOp::irem)) continue;
        KernelBuilder b({21, 50});
        const int x = b.input({dtype, first}), y = b.input({dtype, second});
        const Ex z = b.binary(o, b.load_broadcast(x), b.load_broadcast(y));
        const DType out = z.type() == Scalar::boolean ? DType::boolean
                          : z.type() == Scalar::i64   ? DType::i64
                          : z.type() == Scalar::f32   ? DType::f32
                                                      : DType::f64;
        b.store(b.output({out, {21, 50}}), z);
        Check check;
        check.least = o == ExprOp::idiv || o == ExprOp::irem ? 1 : 0;
        check.most = dtype == DType::boolean ? 1 : 70;
        if (!integers) check.special = {0, -0.0, inf, -inf, nan, 1, -1, 2};
        check_kernel_runs(b.finish(std::string(expr_op_name(o))), check);
        if (HasFatalFailure()) return;
      }
}

TEST(Loops, EveryDtypeConversion) {
  for (int from = 0; from < dtype_count; ++from)
    for (int to = 0; to < dtype_count; ++to)
      for (const Shape& shape : shapes) {
        KernelBuilder b(shape);
        const int x = b.input({static_cast<DType>(from), shape});
        b.store(b.output({static_cast<DType>(to), shape}), b.load_broadcast(x));
        Check check;
        check.least = from == 0 ? 0 : -70;
        check.most = from == 0 ? 1 : 300;
        check.low = -200, check.high = 200;
        check_kernel_runs(b.finish("convert"), check);
        if (HasFatalFailure()) return;
      }
}

TEST(Loops, RoundTo) {
  for (DType dtype : {DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16, DType::i32, DType::f32}) {
    KernelBuilder b({333});
    const int x = b.input({is_float(dtype) ? DType::f32 : DType::i64, {333}});
    b.store(b.output({is_float(dtype) ? DType::f32 : DType::i64, {333}}), b.round_to(b.load_broadcast(x), dtype));
    Check check;
    check.tolerance = 0;
    check.least = -100000, check.most = 100000;
    check.low = -70000, check.high = 70000;
    check.special = {1e-8, 6e-5, -5e-7, 65519, 65520, 1e30};
    check_kernel_runs(b.finish("round"), check);
  }
}

TEST(Loops, PowersWithConstantExponents) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (double exponent : {0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5, -0.5, 1.5, -3.0}) {
    KernelBuilder b({500});
    const int x = b.input({DType::f32, {500}});
    b.store(b.output({DType::f32, {500}}), pow(b.load_broadcast(x), exponent));
    Check check;
    check.special = {0, -0.0, inf, -inf, nan, 1, -1, 2};
    check.tolerance = 1e-6;
    check_kernel_runs(b.finish("pow"), check);
  }
}

TEST(Loops, SineOfLargeAngles) {
  for (double high : {10.0, 1e3, 1e5, 5e6, 1e20}) {
    KernelBuilder b({2000});
    const int x = b.input({DType::f32, {2000}});
    const Ex v = b.load_broadcast(x);
    b.store(b.output({DType::f32, {2000}}), sin(v));
    b.store(b.output({DType::f32, {2000}}), cos(v));
    Check check;
    check.low = -high, check.high = high;
    check.tolerance = 1.5e-7;
    check_kernel_runs(b.finish("sine"), check);
  }
}

// Small angles among NaN, infinite and large ones, each of any number of elements.
TEST(Loops, SineBesideOthers) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (int64_t n : {1, 7, 16, 17, 40, 2051}) {
    for (const std::vector<double>& special :
         {std::vector<double>{std::nan("")}, {inf, -inf}, {8192.5, -9000}, {2e6, -3e7}, {0.0, -0.0}}) {
      KernelBuilder b({n});
      const Ex v = b.load_broadcast(b.input({DType::f32, {n}}));
      b.store(b.output({DType::f32, {n}}), sin(v));
      b.store(b.output({DType::f32, {n}}), cos(v));
      Check check;
      check.special = special;
      check.tolerance = 1.5e-7;
      check_kernel_runs(b.finish("sine"), check);
    }
  }
}

// Tensors whose tiles are fetched ahead: chains, and rows that are one tile and several.
TEST(Loops, LargeTensors) {
  for (const Shape& shape : {Shape{70, 2051}, Shape{37, 4096}, Shape{3, 50001}, Shape{150003}}) {
    KernelBuilder b(shape);
    const Ex x = b.load_broadcast(b.input({DType::f32, shape})), y = b.load_broadcast(b.input({DType::f32, shape}));
    b.store(b.output({DType::f32, shape}), select(x < y, x * y + 1.0, max(x - y, 0.25)));
    check_kernel_runs(b.finish("chain"));
    KernelBuilder r(shape, 1);
    const Ex z = r.load_broadcast(r.input({DType::f32, shape}));
    const Ex mean = r.reduce(Reduction::sum, z) / static_cast<double>(shape.back());
    const Ex squares = r.reduce(Reduction::sum, (z - mean) * (z - mean)) / static_cast<double>(shape.back());
    r.store(r.output({DType::f32, shape}), (z - mean) * rsqrt(squares + 1e-5));
    check_kernel_runs(r.finish("norm"));
  }
}

TEST(Loops, Permutations) {
  std::vector<int> order{0, 1, 2, 3};
  const Shape shape{3, 20, 17, 9};
  for (DType dtype : {DType::f32, DType::f16, DType::u8, DType::i64}) do {
      KernelBuilder b(shape);
      Shape source(4);
      for (size_t d = 0; d < 4; ++d) source[static_cast<size_t>(order[d])] = shape[d];
      const int x = b.input({dtype, source});
      std::vector<Coord> at(4, Coord(int64_t{0}));
      for (int d = 0; d < 4; ++d) at[static_cast<size_t>(order[static_cast<size_t>(d)])] = b.dim(d);
      b.store(b.output({dtype, shape}), b.load(x, at));
      check_kernel_runs(b.finish("permute"));
      if (HasFatalFailure()) return;
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Loops, TransposeThenCompute) {
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 64}, {100, 33}, {5, 700}, {700, 5}, {128, 1030}}) {
    KernelBuilder b({n, m});
    const int x = b.input({DType::f32, {m, n}}), y = b.input({DType::f16, {n, m}}), z = b.input({DType::bf16, {m}});
    const std::vector<Coord> at{b.dim(1), b.dim(0)};
    b.store(b.output({DType::f16, {n, m}}), b.load(x, at) * b.load_broadcast(y) + b.load_broadcast(z));
    check_kernel_runs(b.finish("transpose_mul"));
  }
}

TEST(Loops, FlipAndSlice) {
  KernelBuilder b({5, 100});
  const int x = b.input({DType::f32, {10, 300}});
  const std::vector<Coord> at{b.dim(0) * 2, b.dim(1) * -3 + 299};
  b.store(b.output({DType::f32, {5, 100}}), b.load(x, at));
  check_kernel_runs(b.finish("flip"));
}

TEST(Loops, TurnedByAQuarter) {
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 64}, {100, 33}, {3, 700}, {700, 5}, {80, 131}})
    for (DType dtype : {DType::f32, DType::f16, DType::u8, DType::i64}) {
      KernelBuilder b({n, m});
      const int x = b.input({dtype, {m, n}});
      const std::vector<Coord> forth{b.dim(1), b.dim(0) * -1 + (n - 1)}, back{b.dim(1) * -1 + (m - 1), b.dim(0)};
      b.store(b.output({dtype, {n, m}}), b.load(x, forth));
      b.store(b.output({dtype, {n, m}}), b.load(x, back));
      check_kernel_runs(b.finish("rotate"));
    }
}

// What is stored once a row does not decide how the row is read.
TEST(Loops, SeveralResultsOfARow) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{16, 5000}, {33, 64}, {700, 9}, {1, 70}}) {
    KernelBuilder b({rows, columns}, 1);
    const Ex x = b.load_broadcast(b.input({DType::f32, {rows, columns}}));
    for (const Reduction reduction : {Reduction::min, Reduction::max, Reduction::sum})
      b.store(b.output({DType::f32, {rows}}), std::vector<Coord>{b.dim(0)}, b.reduce(reduction, x));
    check_kernel_runs(b.finish("results"));
  }
}

TEST(Loops, Concat) {
  for (int dim = 0; dim < 3; ++dim)
    for (DType dtype : {DType::f32, DType::bf16, DType::i32}) {
      Shape shape{6, 50, 40};
      std::vector<int64_t> sizes{1, 7, 3, 12};
      Shape whole = shape;
      whole[static_cast<size_t>(dim)] = 23;
      KernelBuilder b(whole);
      std::vector<int> inputs;
      for (int64_t size : sizes) {
        shape[static_cast<size_t>(dim)] = size;
        inputs.push_back(b.input({dtype, shape}));
      }
      Ex value;
      int64_t end = 23;
      for (size_t i = sizes.size(); i-- > 0;) {
        const int64_t begin = end - sizes[i];
        std::vector<Coord> at{b.dim(0), b.dim(1), b.dim(2)};
        at[static_cast<size_t>(dim)] = b.dim(dim) + (-begin);
        const Ex part = b.load(inputs[i], at);
        value = i + 1 == sizes.size() ? part : select(b.index(dim) < end, part, value);
        end = begin;
      }
      b.store(b.output({dtype, whole}), value);
      check_kernel_runs(b.finish("concat"));
    }
}

TEST(Loops, Pad) {
  for (int64_t size : {5, 60}) {
    KernelBuilder b({3, size + 5, size + 3});
    const int x = b.input({DType::f32, {3, size, size}});
    const Affine row = b.dim(1) + (-2), column = b.dim(2) + (-1);
    const std::vector<Coord> at{b.dim(0), row, column};
    b.store(b.output({DType::f32, {3, size + 5, size + 3}}),
            select(b.in_bounds(row, size) && b.in_bounds(column, size), b.load(x, at), 7.5));
    check_kernel_runs(b.finish("pad"));
  }
}

TEST(Loops, MaskedByIndex) {
  KernelBuilder b({2, 70, 90});
  const int x = b.input({DType::f32, {2, 70, 90}});
  b.store(b.output({DType::f32, {2, 70, 90}}),
          select(b.index(2) <= b.index(1), b.load_broadcast(x), -std::numeric_limits<double>::infinity()));
  check_kernel_runs(b.finish("causal"));
}

TEST(Loops, Gather) {
  for (DType dtype : {DType::f32, DType::f16, DType::boolean}) {
    KernelBuilder b({11, 77});
    const int ids = b.input({DType::i64, {11}}), table = b.input({dtype, {6, 77}});
    const std::vector<Coord> at{Coord(b.load(ids, std::vector<Coord>{b.dim(0)})), b.dim(1)};
    b.store(b.output({dtype, {11, 77}}), b.load(table, at));
    Check check;
    if (dtype == DType::boolean) check.most = 1;
    check_kernel_runs(b.finish("embedding"), check);
  }
  KernelBuilder b({9, 40});
  const int i = b.input({DType::i32, {9, 40}}), j = b.input({DType::i64, {40}}),
            table = b.input({DType::f32, {6, 6, 9}});
  const std::vector<Coord> at{Coord(b.load_broadcast(i)), Coord(b.load_broadcast(j)), b.dim(0)};
  b.store(b.output({DType::f32, {9, 40}}), exp(b.load(table, at)) + 1.0);
  check_kernel_runs(b.finish("gather"));
}

// out[c, y, x] = image[c, row(y, x), column(y, x)] · weight(y, x), rows and columns computed from what is read, with
// channels first or last: what does not vary along them is computed once for all.
Kernel sampled(int64_t channels, int64_t high, int64_t wide, bool last, DType dtype) {
  const auto shape = [&](int64_t h, int64_t w) { return last ? Shape{h, w, channels} : Shape{channels, h, w}; };
  KernelBuilder b({channels, high, wide});
  const int image = b.input({dtype, shape(6, 6)}), rows = b.input({DType::i64, {high, wide}}),
            columns = b.input({DType::i32, {high, wide}}), weight = b.input({DType::f32, {high, wide}});
  const auto offset = [&](Ex y, Ex x) {
    return last ? std::vector<Coord>{y, x, b.dim(0)} : std::vector<Coord>{b.dim(0), y, x};
  };
  const std::vector<Coord> here{b.dim(1), b.dim(2)};
  const Ex y = b.load(rows, here), x = b.load(columns, here);
  const Ex w = exp(sin(b.load(weight, here)) * 2.0) - cos(b.load(weight, here));
  const Scalar type = scalar_of(dtype);
  const auto read = [&](Ex at_y, Ex at_x) { return b.cast(b.load(image, offset(at_y, at_x)), Scalar::f32); };
  const Ex sum = read(y, x) * w + read(max(y - int64_t{1}, int64_t{0}), irem(x + int64_t{1}, b.integer(6)));
  const std::vector<Coord> to =
      last ? std::vector<Coord>{b.dim(1), b.dim(2), b.dim(0)} : std::vector<Coord>{b.dim(0), b.dim(1), b.dim(2)};
  b.store(b.output({dtype, shape(high, wide)}), to, b.cast(sum, type));
  return b.finish("sampled");
}

TEST(Loops, PlacesAreTheSameForAllChannels) {
  Check loose;
  loose.tolerance = 1e-5;
  for (DType dtype : {DType::f32, DType::f16, DType::f64})
    for (int64_t channels : {1, 3, 17})
      for (bool last : {false, true})
        for (auto [high, wide] : {std::pair<int64_t, int64_t>{5, 9}, {37, 70}, {1, 33}, {3, 1100}})
          check_kernel_runs(sampled(channels, high, wide, last, dtype), loose);
  const Kernel k = sampled(3, 5, 70, false, DType::f32);
  Memory memory = random_arguments(k, {});
  store_int(memory[1].data(), DType::i64, 123, 6);  // one beyond the image
  Loops loops(k, 2);
  EXPECT_FALSE(loops.run(pointers(k, memory).data()));
  EXPECT_EQ(loops.trap_message(), "index 6 is out of range for a dimension of 6");
  store_int(memory[1].data(), DType::i64, 123, 5);
  EXPECT_TRUE(loops.run(pointers(k, memory).data()));
}

// Addresses that index terms, a padded border and a stride together decide.
TEST(Loops, GatherInPaddedWindows) {
  for (int64_t step : {1, 2})
    for (int64_t width : {7, 40, 300}) {
      KernelBuilder b({4, width});
      const int table = b.input({DType::f32, {6, 64}}), ids = b.input({DType::i64, {4}}),
                lines = b.input({DType::i64, {4, width}});
      const Affine at = b.dim(1) * step + -3;
      const Ex one = b.load(table, std::vector<Coord>{Coord(b.load(ids, std::vector<Coord>{b.dim(0)})), at});
      const Ex many = b.load(table, std::vector<Coord>{Coord(b.load_broadcast(lines)), at});
      b.store(b.output({DType::f32, {4, width}}), select(b.in_bounds(at, 64), one + many * 2.0, -1.0));
      check_kernel_runs(b.finish("padded_gather"));
    }
  // Outside the image an index may be anything.
  KernelBuilder b({8});
  const int table = b.input({DType::f32, {2, 6}});
  const Affine at = b.dim(0) + -1;
  const Ex line = idiv(b.index(0) - int64_t{1} + int64_t{6}, b.integer(6)) - int64_t{1};  // −1, 0 …, 1 beyond
  b.store(b.output({DType::f32, {8}}),
          select(b.in_bounds(at, 6), b.load(table, std::vector<Coord>{Coord(line), at}), -1.0));
  check_kernel_runs(b.finish("adjacent"));
}

// Stores that leave the result: those do nothing.
TEST(Loops, InterleavedAndCropped) {
  for (bool last : {false, true})
    for (int64_t channels : {1, 5, 32})
      for (int64_t crop : {0, 1, 2}) {
        const int64_t count = 9, stride = 3, extent = count * stride - 2 * crop;
        KernelBuilder b({channels, count, stride, count, stride});
        const int x = b.input({DType::f32, {count, count, stride, stride, channels}});
        const Affine y_at = b.dim(1) * stride + b.dim(2) + -crop, x_at = b.dim(3) * stride + b.dim(4) + -crop;
        const std::vector<Coord> from{b.dim(1), b.dim(3), b.dim(2), b.dim(4), b.dim(0)},
            to = last ? std::vector<Coord>{y_at, x_at, b.dim(0)} : std::vector<Coord>{b.dim(0), y_at, x_at};
        const Shape shape = last ? Shape{extent, extent, channels} : Shape{channels, extent, extent};
        b.store(b.output({DType::f32, shape}), to, b.load(x, from) + 1.0);
        check_kernel_runs(b.finish("interleave"));
      }
}

TEST(Loops, ScatterAddsInOrder) {
  for (DType dtype : {DType::f32, DType::f16, DType::i32}) {
    KernelBuilder b({30, 50});
    const int x = b.input({dtype, {6, 50}}), ids = b.input({DType::i64, {30}}), y = b.input({dtype, {30, 50}});
    const int out = b.output({dtype, {6, 50}}, x);
    const std::vector<Coord> at{Coord(b.load(ids, std::vector<Coord>{b.dim(0)})), b.dim(1)};
    b.store(out, at, b.load_broadcast(y), Reduction::sum);
    Check check;
    check.tolerance = 1e-5;
    if (dtype == DType::f16) check.tolerance = 1e-2;
    check_kernel_runs(b.finish("scatter_add"), check);
  }
  KernelBuilder b({2, 3, 8});
  const int cache = b.input({DType::bf16, {2, 6, 8}}), at = b.input({DType::i64, {3}}),
            x = b.input({DType::bf16, {2, 3, 8}});
  const int out = b.output({DType::bf16, {2, 6, 8}}, cache);
  const std::vector<Coord> target{b.dim(0), Coord(b.load(at, std::vector<Coord>{b.dim(1)})), b.dim(2)};
  b.store(out, target, b.load_broadcast(x));
  check_kernel_runs(b.finish("index_copy"));
}

TEST(Loops, Traps) {
  KernelBuilder b({40});
  const int ids = b.input({DType::i64, {40}}), table = b.input({DType::f32, {3}});
  const std::vector<Coord> at{Coord(b.load_broadcast(ids))};
  b.store(b.output({DType::f32, {40}}), b.load(table, at));
  const Kernel k = b.finish("trap");
  Memory memory = random_arguments(k, {});
  Loops loops(k, 2);
  EXPECT_FALSE(loops.run(pointers(k, memory).data()));
  EXPECT_NE(loops.trap_message().find("out of range for a dimension of 3"), std::string::npos) << loops.trap_message();
  for (int64_t i = 0; i < 40; ++i) store_int(memory[0].data(), DType::i64, i, 2);
  EXPECT_TRUE(loops.run(pointers(k, memory).data()));
  KernelBuilder d({40});
  const int x = d.input({DType::i64, {40}});
  d.store(d.output({DType::i64, {40}}), idiv(d.integer(7), d.load_broadcast(x)));
  const Kernel division = d.finish("division");
  memory = random_arguments(division, {});
  Loops divide(division, 2);
  EXPECT_FALSE(divide.run(pointers(division, memory).data()));
  EXPECT_EQ(divide.trap_message(), "integer division by zero");
  KernelBuilder r({3, 40});
  const Ex y = r.load_broadcast(r.input({DType::f32, {3, 40}}));
  r.store(r.output({DType::f32, {3, 40}}), select(require(y < 5, Requirement::probability), y, 0.0));
  const Kernel required = r.finish("required");
  memory = random_arguments(required, {});
  for (int64_t i = 0; i < 120; ++i) store_double(memory[0].data(), DType::f32, i, i == 57 ? 5 : 4);
  Loops require(required, 2);
  EXPECT_FALSE(require.run(pointers(required, memory).data()));
  EXPECT_EQ(require.trap_message(), "a probability is not in [0, 1]");
  store_double(memory[0].data(), DType::f32, 57, 3);
  require.clear_trap();
  EXPECT_TRUE(require.run(pointers(required, memory).data()));
}

// space [n, oh, ow, c | kh, kw] or [n, c, oh, ow | kh, kw]
Kernel pooling(int64_t n, int64_t c, int64_t size, int64_t window, int64_t step, int64_t pad, bool channels_last,
               bool average) {
  const int64_t out = (size + 2 * pad - window) / step + 1;
  const Shape space = channels_last ? Shape{n, out, out, c, window, window} : Shape{n, c, out, out, window, window};
  KernelBuilder b(space, 2);
  const int x = b.input({DType::f32, channels_last ? Shape{n, size, size, c} : Shape{n, c, size, size}});
  const int h = channels_last ? 1 : 2;
  const Affine row = b.dim(h) * step + b.dim(4) + (-pad), column = b.dim(h + 1) * step + b.dim(5) + (-pad);
  std::vector<Coord> at{b.dim(0), row, column, b.dim(3)};
  if (!channels_last) at = {b.dim(0), b.dim(1), row, column};
  const double outside = average ? 0 : -std::numeric_limits<double>::infinity();
  const Ex v = select(b.in_bounds(row, size) && b.in_bounds(column, size), b.load(x, at), outside);
  Ex y = b.reduce(average ? Reduction::sum : Reduction::max, v);
  if (average) y = y / static_cast<double>(window * window);
  const Shape result(space.begin(), space.begin() + 4);
  std::vector<Coord> to;
  for (int d = 0; d < 4; ++d) to.emplace_back(b.dim(d));
  b.store(b.output({DType::f32, result}), to, y);
  return b.finish("pool");
}

TEST(Loops, Pooling) {
  for (bool last : {false, true})
    for (bool average : {false, true}) {
      check_kernel_runs(pooling(2, 24, 13, 3, 2, 1, last, average));
      check_kernel_runs(pooling(1, 64, 30, 3, 1, 1, last, average));
      check_kernel_runs(pooling(1, 3, 16, 2, 2, 0, last, average));
      check_kernel_runs(pooling(1, 100, 9, 9, 1, 0, last, average));
    }
}

TEST(Loops, EmptySpaceAndScalars) {
  KernelBuilder e({3, 0});
  const int x = e.input({DType::f32, {3, 0}});
  e.store(e.output({DType::f32, {3, 0}}), exp(e.load_broadcast(x)));
  check_kernel_runs(e.finish("empty"));
  KernelBuilder s({});
  const int y = s.input({DType::f32, {}}), z = s.input({DType::i64, {}});
  s.store(s.output({DType::f16, {}}), exp(s.load_broadcast(y)) * s.load_broadcast(z) + 1.0);
  check_kernel_runs(s.finish("scalar"));
  KernelBuilder f({300});
  f.store(f.output({DType::bf16, {300}}), f.number(3.25));
  f.store(f.output({DType::i64, {300}}), f.index(0) * 3 + 5);
  check_kernel_runs(f.finish("fill"));
}

// Whatever a value turns out to be, what it requires is asked: of constants, of truths that decide nothing, of choices
// between equals, and of requirements within each other.
TEST(Loops, RequirementsStay) {
  for (int value = 0; value < 4; ++value)
    for (int form = 0; form < 6; ++form)
      for (const bool along_row : {false, true}) {
        KernelBuilder k({3, 40}, along_row ? 1 : 0);
        const Ex y = k.load_broadcast(k.input({DType::f32, {3, 40}}));
        const Ex one = require(y < 5, Requirement::assertion), two = require(y < 6, Requirement::assertion);
        const Ex values[] = {k.number(0), k.number(2.5), y, y * 0.0};
        const Ex x = values[value], no = k.integer(0, Scalar::boolean), yes = k.integer(1, Scalar::boolean);
        Ex found = x;
        if (form == 0) found = k.select(one, x, x);
        if (form == 1) found = k.select(one, x, k.number(0));
        if (form == 2) found = k.select(no && one, k.number(1), x);
        if (form == 3) found = k.select(yes || one, x, k.number(1));
        if (form == 4) found = k.select(k.select(one, two, no), x, x);
        if (form == 5) found = k.select(one && two, k.select(two, x, x), x);
        k.store(k.output({DType::f32, {3, 40}}), found);
        const Kernel kernel = k.finish("required");
        for (const int wrong : {-1, 0, 57, 119}) {
          Memory memory = random_arguments(kernel, {});
          if (wrong >= 0) store_double(memory[0].data(), DType::f32, wrong, 7);
          Loops loops(kernel, 2);
          EXPECT_EQ(loops.run(pointers(kernel, memory).data()), wrong < 0) << to_text(kernel);
        }
      }
}

// What is one instruction of several expressions by itself, under each reduction, and next to another reader of it.
TEST(Loops, ReductionsOfWhatIsOneInstruction) {
  constexpr int forms = 10;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16})
    for (const int64_t length : {2, 7, 70, 1100})
      for (int form = 0; form < forms; ++form)
        for (const Reduction reduction : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max})
          for (const bool again : {false, true}) {
            KernelBuilder k({3, length}, 1);
            const Ex x = k.load_broadcast(k.input({dtype, {3, length}})),
                     y = k.load_broadcast(k.input({dtype, {3, length}}));
            const Ex values[forms] = {x * 0.5 * (1 + erf(x * 0.7071067811865476)),
                                      (erf(x * 0.7071067811865476) + 1) * (x * 0.5),
                                      x / (1 + exp(-x)),
                                      x * y,
                                      x * y + x,
                                      (x - y) * (x - y),
                                      select(x < 0, x * 0.01, x),
                                      x * min(max(x + 3, 0), 6) / 6,
                                      ((x * 0.25 + 0.5) * x + 0.125) * x + 1,
                                      select(y < 0, -x, x)};
            const Ex value = values[form];
            k.store(k.output({dtype, {3}}), std::vector<Coord>{k.dim(0)}, k.reduce(reduction, value));
            if (again) k.store(k.output({dtype, {3, length}}), value);
            check_kernel_runs(k.finish("reduced"), {.low = 0.9, .high = 1.1, .tolerance = 4e-5, .special = {}});
          }
}

}  // namespace
}  // namespace npusim::cpu::loops
