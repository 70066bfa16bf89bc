// The loops interpreter against the reference evaluator: rows, that is reductions and scans.
#include <limits>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

// space [rows | n], or with the row outside in memory ([n, rows]) when `strided`.
struct Rows {
  KernelBuilder b;
  bool strided;
  Shape shape;
  std::vector<Coord> at;
  Rows(int64_t rows, int64_t n, bool strided)
      : b({rows, n}, 1), strided(strided), shape(strided ? Shape{n, rows} : Shape{rows, n}) {
    at = strided ? std::vector<Coord>{b.dim(1), b.dim(0)} : std::vector<Coord>{b.dim(0), b.dim(1)};
  }
  Ex input(DType dtype) { return b.load(b.input({dtype, shape}), at); }
  void output(DType dtype, Ex x) { outputs.emplace_back(dtype, x); }
  void reduced(DType dtype, Ex x, int64_t rows) { sums.push_back({dtype, x, rows}); }
  Kernel finish(const char* name) {
    for (auto& [dtype, x] : outputs) b.store(b.output({dtype, shape}), at, x);
    for (auto& s : sums) b.store(b.output({s.dtype, {s.rows}}), std::vector<Coord>{b.dim(0)}, s.x);
    return b.finish(name);
  }
  struct Sum {
    DType dtype;
    Ex x;
    int64_t rows;
  };
  std::vector<std::pair<DType, Ex>> outputs;
  std::vector<Sum> sums;
};

const std::vector<int64_t> lengths{1, 2, 15, 16, 17, 64, 100, 197, 1000, 1024, 4096, 5000, 20001};

template <class F>
void each_row(F f) {
  for (int64_t n : lengths)
    for (int64_t rows : {1, 3, 50})
      for (bool strided : {false, true}) {
        if (n * rows > 100000) continue;
        f(rows, n, strided);
        if (testing::Test::HasFailure()) return;
      }
}

// Wherever NaN stands, in rows of every length, of doubles too.
TEST(LoopRows, ExtremesKeepNan) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f64, DType::f32})
    for (Reduction reduction : {Reduction::min, Reduction::max})
      for (int64_t n = 1; n <= 80; n += n < 40 ? 1 : 7)
        for (const std::vector<double>& special :
             {std::vector<double>{}, {nan}, {inf, -inf}, {nan, inf}, {0.0, -0.0}}) {
          Rows k(9, n, false);
          k.reduced(dtype, k.b.reduce(reduction, k.input(dtype)), 9);
          check_kernel_runs(k.finish("extreme"), {.seed = static_cast<unsigned>(n), .special = special});
          if (testing::Test::HasFailure()) return;
        }
}

TEST(LoopRows, Softmax) {
  for (DType dtype : {DType::f32, DType::f16})
    each_row([&](int64_t rows, int64_t n, bool strided) {
      Rows r(rows, n, strided);
      const Ex x = r.input(dtype);
      const Ex e = exp(x - r.b.reduce(Reduction::max, x));
      r.output(dtype, e / r.b.reduce(Reduction::sum, e));
      check_kernel_runs(r.finish("softmax"));
    });
}

TEST(LoopRows, LayerNorm) {
  each_row([&](int64_t rows, int64_t n, bool strided) {
    Rows r(rows, n, strided);
    const Ex x = r.input(DType::f32);
    const Ex mean = r.b.reduce(Reduction::sum, x) / static_cast<double>(n);
    const Ex d = x - mean;
    const Ex var = r.b.reduce(Reduction::sum, d * d) / static_cast<double>(n);
    const Ex gamma = r.b.load(r.b.input({DType::f32, {n}}), std::vector<Coord>{r.b.dim(1)});
    const Ex beta = r.b.load(r.b.input({DType::bf16, {n}}), std::vector<Coord>{r.b.dim(1)});
    r.output(DType::f32, d * rsqrt(var + 1e-5) * gamma + beta);
    r.reduced(DType::f32, mean, rows);
    Check check;
    check.tolerance = n < 3 ? 1e-3 : 1e-5;
    check_kernel_runs(r.finish("layer_norm"), check);
  });
}

// Distances from what is one for a row: its mean, a number, what is given for it; of what is loaded and of what is
// computed, with and without the distances themselves behind the sum.
TEST(LoopRows, SquaredDistances) {
  for (const Shape& shape : {Shape{5, 83}, Shape{37, 16}, Shape{3, 5000}, Shape{2, 70001}, Shape{4, 1}})
    for (int form = 0; form < 12; ++form) {
      KernelBuilder b(shape, 1);
      const Ex given = b.load_broadcast(b.input({DType::f32, {shape[0], 1}}));
      const Ex y = b.load_broadcast(b.input({DType::f32, shape}));
      const Ex x = form & 1 ? y * given : y;
      const auto size = static_cast<double>(shape.back());
      const Ex from = form / 4 == 0   ? b.reduce(Reduction::sum, x) / size
                      : form / 4 == 1 ? literal(y, 0.25)
                                      : given + 0.5;
      const Ex distance = x - from;
      const Ex squares = b.reduce(Reduction::sum, distance * distance) / size;
      if (form & 2)
        b.store(b.output({DType::f32, shape}), distance * rsqrt(squares + 1e-5) + x);
      else
        b.store(b.output({DType::f32, {shape[0]}}), std::vector<Coord>{b.dim(0)}, squares);
      Check check;
      check.tolerance = 2e-5;
      check_kernel_runs(b.finish("distances"), check);
      if (HasFatalFailure()) return;
    }
}

TEST(LoopRows, EveryReduction) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean, DType::bf16})
    for (int reduction = 0; reduction < 4; ++reduction)
      for (bool special : {false, true})
        each_row([&](int64_t rows, int64_t n, bool strided) {
          if (special && !is_float(dtype)) return;
          Rows r(rows, n, strided);
          const Ex x = r.b.reduce(static_cast<Reduction>(reduction), r.input(dtype));
          r.reduced(x.type() == Scalar::i64 ? DType::i64 : x.type() == Scalar::f32 ? DType::f32 : DType::f64, x, rows);
          Check check;
          check.tolerance = 2e-6 + 5e-8 * static_cast<double>(n);  // of the sum of magnitudes
          if (reduction == 1) {
            check.low = n > 200 ? 0.999 : 0.5, check.high = n > 200 ? 1.001 : 1.8;
            check.tolerance = 1e-4;
          }
          check.least = -2;
          if (dtype == DType::boolean) check.least = 0, check.most = 1;
          if (special)
            check.special = n > 50 ? std::vector<double>{1, 2} : std::vector<double>{nan, inf, 1, 1, 1, 1, 1};
          check_kernel_runs(r.finish("reduce"), check);
        });
}

TEST(LoopRows, ArgMax) {
  each_row([&](int64_t rows, int64_t n, bool strided) {
    Rows r(rows, n, strided);
    const Ex x = r.input(DType::f16);
    const Ex top = r.b.reduce(Reduction::max, x);
    r.reduced(DType::i64, r.b.reduce(Reduction::min, select((x == top) || isnan(x), r.b.index(1), n)), rows);
    check_kernel_runs(r.finish("argmax"));
  });
}

TEST(LoopRows, Scans) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::i64, DType::f64})
    for (Reduction reduction : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max})
      each_row([&](int64_t rows, int64_t n, bool strided) {
        Rows r(rows, n, strided);
        const Ex x = r.input(dtype);
        const Ex s = r.b.scan(reduction, x);
        r.output(dtype, s + x);
        Check check;
        check.least = 1, check.most = 3;
        check.tolerance = 1e-5;
        if (reduction >= Reduction::min && n % 2) check.special = {nan, inf, -inf, 1, 1, 1, 1, 1};
        if (reduction == Reduction::product) check.low = 0.99, check.high = 1.01;
        check_kernel_runs(r.finish("scan"), check);
      });
  Rows r(4, 3000, false);
  const Ex s = r.b.scan(Reduction::sum, r.input(DType::f32));
  r.output(DType::f32, s / r.b.reduce(Reduction::max, abs(s)));
  check_kernel_runs(r.finish("scan_normalised"));
}

TEST(LoopRows, RunningExtremesAndWhereTheyAre) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::f16, DType::i64})
    for (Reduction reduction : {Reduction::min, Reduction::max})
      for (const std::vector<double>& special : {std::vector<double>{}, {1, 2, 3}, {nan, inf, 1, -inf, 1, 1, 1, 1}})
        each_row([&](int64_t rows, int64_t n, bool strided) {
          Rows r(rows, n, strided);
          const Ex x = r.input(dtype), top = r.b.scan(reduction, x);
          const Ex hit = is_float(dtype) ? x == top || isnan(x) : x == top;
          r.output(dtype, top);
          r.output(DType::i64, r.b.scan(Reduction::max, select(hit, r.b.index(1), int64_t{-1})));
          Check check;
          check.special = special;
          check_kernel_runs(r.finish("cummax"), check);
        });
}

TEST(LoopRows, LogsOfRunningSums) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::f64})
    for (const std::vector<double>& special : {std::vector<double>{}, {-inf, -1e30, 500}, {inf, -inf, nan, 1, 1, 1}})
      each_row([&](int64_t rows, int64_t n, bool strided) {
        Rows r(rows, n, strided);
        const Ex x = r.input(dtype);
        r.output(dtype, r.b.scan(Reduction::sum, x));
        Kernel k = r.finish("logcumsumexp");
        for (Expr& e : k.exprs)
          if (e.op == ExprOp::scan) e.integer = 1;
        Check check;
        check.special = special;
        check_kernel_runs(k, check);
      });
}

TEST(LoopRows, SeveralRowDimensions) {
  for (const Shape& space :
       std::vector<Shape>{{2, 8, 4, 7, 7}, {1, 32, 5, 40, 40}, {3, 2, 2, 3, 100}, {1, 1, 16, 56, 56}}) {
    // group norm: [n, groups | channels, h, w]
    KernelBuilder b(space, 3);
    const int64_t count = space[2] * space[3] * space[4];
    const int in = b.input({DType::f32, space});
    const Ex x = b.load_broadcast(in);
    const Ex mean = b.reduce(Reduction::sum, x) / static_cast<double>(count);
    const Ex var = b.reduce(Reduction::sum, (x - mean) * (x - mean)) / static_cast<double>(count);
    const Ex gamma = b.load(b.input({DType::f32, {space[1], space[2]}}), std::vector<Coord>{b.dim(1), b.dim(2)});
    b.store(b.output({DType::f16, space}), (x - mean) * rsqrt(var + 1e-5) * gamma);
    check_kernel_runs(b.finish("group_norm"));
    // the mean over h and w of channels last: [n, c | h, w]
    KernelBuilder m({space[0], space[4], space[1], space[3]}, 2);
    const int y = m.input({DType::f32, {space[0], space[1], space[3], space[4]}});
    const Ex v = m.load(y, std::vector<Coord>{m.dim(0), m.dim(2), m.dim(3), m.dim(1)});
    m.store(m.output({DType::f32, {space[0], space[4]}}), std::vector<Coord>{m.dim(0), m.dim(1)},
            m.reduce(Reduction::sum, v) / static_cast<double>(space[1] * space[3]));
    check_kernel_runs(m.finish("mean"));
  }
}

TEST(LoopRows, LongSumsStayAccurate) {
  for (bool strided : {false, true}) {
    Rows r(strided ? 32 : 1, 100000, strided);
    r.reduced(DType::f32, r.b.reduce(Reduction::sum, r.input(DType::f32)) / 100000.0, strided ? 32 : 1);
    Check check;
    check.low = 0.5, check.high = 1.5;
    check.tolerance = 5e-7;
    check_kernel_runs(r.finish("long_mean"), check);
  }
}

TEST(LoopRows, EmptyRows) {
  for (int reduction = 0; reduction < 4; ++reduction) {
    KernelBuilder b({5, 0}, 1);
    const Ex x = b.load_broadcast(b.input({DType::f32, {5, 0}}));
    b.store(b.output({DType::f32, {5}}), std::vector<Coord>{b.dim(0)},
            b.reduce(static_cast<Reduction>(reduction), x) / 0.0);
    check_kernel_runs(b.finish("empty_row"));
  }
}

TEST(LoopRows, MaskedSoftmaxAndBroadcastStore) {
  // [heads, q | k] with a causal mask, an additive mask, and the row's maximum stored along the row.
  KernelBuilder b({3, 65, 65}, 1);
  const Ex x = b.load_broadcast(b.input({DType::f32, {3, 65, 65}}));
  const Ex mask = b.load_broadcast(b.input({DType::boolean, {65, 65}}));
  const Ex s = select((b.index(2) <= b.index(1)) && mask, x * 0.125, -std::numeric_limits<double>::infinity());
  const Ex top = b.reduce(Reduction::max, s);
  const Ex e = exp(s - top);
  b.store(b.output({DType::f32, {3, 65, 65}}), e / b.reduce(Reduction::sum, e));
  b.store(b.output({DType::f32, {3, 65, 65}}), top);
  Check check;
  check.least = 0, check.most = 1;
  check_kernel_runs(b.finish("masked_softmax"), check);
}

}  // namespace
}  // namespace npusim::cpu::loops
