// What one instruction computes of several expressions: pairs of operations, choices and polynomials, next to the same
// kernels whose values in between are stored, and so computed by themselves.
#include <bit>
#include <limits>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> specials{0, -0.0, inf, -inf, nan, 1, -1, 6};

class Chain {
 public:
  Chain(unsigned seed, bool stores_all) : random_(seed), stores_all_(stores_all), b_({rows, columns}) {}

  Kernel make(DType dtype) {
    dtype_ = dtype;
    Ex x = operand();
    std::vector<Ex> between;
    for (int64_t step = 0, steps = 2 + pick(4); step < steps; ++step) {
      between.push_back(x = joined(x));
    }
    for (const Ex& value : between)
      if (stores_all_) store(value);
    store(x);
    return b_.finish("chain");
  }

 private:
  static constexpr int64_t rows = 3, columns = 83;

  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  void store(Ex x) { b_.store(b_.output({dtype_, {rows, columns}}), x); }
  Ex operand() {
    const Shape forms[] = {{rows, columns}, {rows, columns}, {rows, 1}, {columns}, {1}};
    return b_.load_broadcast(b_.input({dtype_, forms[pick(5)]}));
  }
  Ex constant(Ex x) {
    const double numbers[] = {0, -0.0, 0.5, 3, 6, -2, inf, -inf, nan};
    return literal(x, numbers[pick(9)]);
  }
  Ex joined(Ex x) {
    Ex y = pick(2) ? operand() : constant(x);
    if (pick(4) == 0) std::swap(x, y);
    switch (pick(8)) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x * y;
      case 3:
        return x / y;
      case 4:
        return min(x, y);
      case 5:
        return max(x, y);
      case 6:
        return select(pick(2) ? x < y : x <= y, pick(2) ? x : y, operand());
      default:
        return select(pick(2) ? x == y : x != y, x, constant(x));
    }
  }

  std::mt19937_64 random_;
  bool stores_all_;
  KernelBuilder b_;
  DType dtype_ = DType::f32;
};

// Its last result.
std::vector<std::byte> result_of(const Kernel& k, const Check& check) {
  Memory memory = random_arguments(k, check);
  EXPECT_TRUE(Loops(k, 1).run(pointers(k, memory).data()));
  return memory.back();
}

// But for products in sums, which round once where nothing else reads them.
bool has_sum_of_product(const Kernel& k) {
  for (const Expr& e : k.exprs)
    for (size_t n = 0; n < 2 && (e.op == ExprOp::add || e.op == ExprOp::sub); ++n)
      if (k.exprs[static_cast<size_t>(e.in[n])].op == ExprOp::mul) return true;
  return false;
}

TEST(LoopsChain, JoinsHaveTheBitsOfEachByItself) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Kernel joined = Chain(seed, false).make(dtype), apart = Chain(seed, true).make(dtype);
      if (has_sum_of_product(joined)) continue;
      ++compared;
      Check check;
      check.seed = seed;
      check.special = specials;
      on_every_instruction_set([&] {
        const auto one = result_of(joined, check), other = result_of(apart, check);
        for (int64_t i = 0; i < joined.args.back().elements; ++i) {
          const double a = load_double(one.data(), dtype, i), b = load_double(other.data(), dtype, i);
          ASSERT_TRUE(std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b))
              << "seed " << seed << " element " << i << ": " << a << " for " << b << '\n'
              << to_text(joined);
        }
      });
      if (HasFatalFailure()) return;
    }
  EXPECT_GT(compared, 1000);
}

// Of operands in every order, of a tile and of a number, next to the same of values that are stored.
TEST(LoopsChain, GelusHaveTheBitsOfEachByItself) {
  const auto gelu = [](DType dtype, const Shape& shape, int order, bool apart) {
    KernelBuilder b({3, 83});
    const Ex x = b.load_broadcast(b.input({dtype, shape}));
    const Ex half = order & 1 ? 0.5 * x : x * 0.5, scaled = order & 2 ? 0.7071 * x : x * 0.7071;
    const Ex share = order & 4 ? erf(scaled) + 1.0 : 1.0 + erf(scaled);
    if (apart)
      for (const Ex& value : {half, scaled, share}) b.store(b.output({dtype, {3, 83}}), value);
    b.store(b.output({dtype, {3, 83}}), order & 8 ? half * share : share * half);
    return b.finish("gelu");
  };
  Check check;
  check.special = specials;
  check.low = -6, check.high = 6;
  for (int order = 0; order < 16; ++order)
    for (const Shape& shape : {Shape{3, 83}, Shape{3, 1}, Shape{1}})
      on_every_instruction_set([&] {
        const auto one = result_of(gelu(DType::f32, shape, order, false), check),
                   other = result_of(gelu(DType::f32, shape, order, true), check);
        EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size()), 0) << "order " << order;
      });
}

// From one value to another by weights on both sides of a half, of tiles and of rows of one number.
TEST(LoopsChain, WaysBetweenHaveTheBitsOfTheirParts) {
  const auto lerp = [](const std::vector<Shape>& shapes, bool apart) {
    KernelBuilder b({3, 83});
    std::vector<Ex> in;
    for (const Shape& shape : shapes) in.push_back(b.load_broadcast(b.input({DType::f32, shape})));
    const Ex between = in[1] - in[0], rest = 1 - in[2], near = in[0] + in[2] * between, far = in[1] - between * rest;
    if (apart)
      for (const Ex& value : {between, rest}) b.store(b.output({DType::f32, {3, 83}}), value);
    b.store(b.output({DType::f32, {3, 83}}), select(abs(in[2]) < 0.5, near, far));
    return b.finish("lerp");
  };
  Check check;
  check.special = specials;
  check.low = -2, check.high = 2;
  for (int forms = 0; forms < 27; ++forms) {
    const Shape all[] = {{3, 83}, {3, 1}, {1, 83}};
    const std::vector<Shape> shapes{all[forms % 3], all[forms / 3 % 3], all[forms / 9]};
    on_every_instruction_set([&] {
      const auto one = result_of(lerp(shapes, false), check), other = result_of(lerp(shapes, true), check);
      EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size()), 0) << "forms " << forms;
    });
  }
}

// Floats of all sizes, and the last and first quotients of theirs below and above ties, divided by one number: each as
// a division rounds it, alone and in an instruction with a sum, before and after it.
TEST(LoopsChain, QuotientsByOneNumber) {
  std::mt19937 random(13);
  std::vector<float> divisors{1, 3, 6, 7, 10, 0.1f, 0.3f, -6, 0, -0.0f, 1e-40f, 1e38f, 0x1.fffffep0f, 0x1.000002p0f};
  for (const double x : {inf, -inf, nan}) divisors.push_back(static_cast<float>(x));
  for (int i = 0; i < 60; ++i)
    divisors.push_back(std::bit_cast<float>(static_cast<uint32_t>(random() % 0x10000000 + 0x3a000000)));
  constexpr int64_t n = 5003;
  for (const float by : divisors) {
    std::vector<float> x(n);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto bits = static_cast<uint32_t>(random());
      x[i] = i % 3 == 0 ? std::bit_cast<float>(bits) : std::bit_cast<float>(bits % 0x02000000 + 0x3f000000);
      if (i % 3 == 1) x[i] = std::nextafterf(std::nextafterf(x[i], 0) * by, bits % 2 ? 0 : x[i]);
      if (i % 89 == 0) x[i] = static_cast<float>(specials[i / 89 % specials.size()]);
    }
    on_every_instruction_set([&] {
      KernelBuilder b({n});
      const Ex a = b.load_broadcast(b.input({DType::f32, {n}})), y = b.load_broadcast(b.input({DType::f32, {1}}));
      for (const Ex& value : {a / y, a / y + 1.0, (a + 1.0) / y}) b.store(b.output({DType::f32, {n}}), value);
      std::vector<float> out[3] = {x, x, x};
      void* args[] = {x.data(), const_cast<float*>(&by), out[0].data(), out[1].data(), out[2].data()};
      Loops(b.finish("quotients"), 1).run(args);
      for (size_t i = 0; i < x.size(); ++i) {
        const float quotient = x[i] / by, sum = x[i] + 1, wanted[] = {quotient, quotient + 1, sum / by};
        for (size_t k = 0; k < 3; ++k)
          ASSERT_TRUE(std::isnan(wanted[k])
                          ? std::isnan(out[k][i])
                          : wanted[k] == out[k][i] && std::signbit(wanted[k]) == std::signbit(out[k][i]))
              << x[i] << " by " << by << ", form " << k << ": " << out[k][i] << " for " << wanted[k];
      }
    });
    if (HasFatalFailure()) return;
  }
}

// Of every degree up to nine, of tiles and of single numbers, from constants and from values, with steps of others
// between them.
TEST(LoopsChain, Polynomials) {
  std::mt19937 random(5);
  for (int degree = 1; degree < 10; ++degree)
    for (DType dtype : {DType::f32, DType::f64})
      for (const Shape& shape : {Shape{3, 83}, Shape{3, 1}, Shape{83}, Shape{1}})
        for (int form = 0; form < 4; ++form) {
          KernelBuilder b({3, 83});
          const Ex x = b.load_broadcast(b.input({dtype, shape})), y = b.load_broadcast(b.input({dtype, {3, 83}}));
          Ex sum = form == 0 ? y : form == 1 ? x : literal(y, 0.25);
          if (form == 3) sum = (sum * y + 2.0) * y + 1.0;
          for (int n = 0; n < degree; ++n) {
            const double term = std::uniform_real_distribution<double>(-1, 1)(random);
            sum = n % 2 ? sum * x + term : term + x * sum;
          }
          b.store(b.output({dtype, {3, 83}}), sum);
          if (degree == 4) b.store(b.output({dtype, {3, 83}}), sum * sum + x);
          Check check;
          check.low = -1.5, check.high = 1.5;
          check_kernel_runs(b.finish("polynomial"), check);
          if (HasFatalFailure()) return;
        }
}

// Logarithms and exponentials of doubles: within two units in the last place of the C library's, whatever is
// next to it.
TEST(LoopsChain, DoublesNearTheCLibrary) {
  std::mt19937_64 random(7);
  std::vector<double> x{0.0,    -0.0,  inf,    -inf,  nan,    1.0,    -1.0, 5e-324,
                        1e-310, 709.5, -708.5, 710.0, -745.1, -746.0, 700,  -700};
  for (int i = 0; i < 3000; ++i) x.push_back(std::bit_cast<double>(random()));
  for (int i = 0; i < 3000; ++i) x.push_back(std::uniform_real_distribution<double>(-40, 40)(random));
  for (int i = 0; i < 3000; ++i) x.push_back(1 + std::uniform_real_distribution<double>(-0.5, 0.5)(random));
  const auto n = static_cast<int64_t>(x.size());
  for (ExprOp op : {ExprOp::log, ExprOp::exp})
    on_every_instruction_set([&] {
      KernelBuilder b({n});
      const int p = b.input({DType::f64, {n}});
      b.store(b.output({DType::f64, {n}}), b.unary(op, b.load_broadcast(p)));
      std::vector<double> out(x.size());
      void* args[] = {x.data(), out.data()};
      Loops(b.finish("double"), 1).run(args);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = op == ExprOp::log ? std::log(x[i]) : std::exp(x[i]);
        EXPECT_TRUE(std::isnan(want) ? std::isnan(out[i])
                                     : out[i] == want || std::fabs(out[i] - want) <= 0x1p-51 * std::fabs(want))
            << expr_op_name(op) << " of " << x[i] << ": " << out[i] << " for " << want;
      }
    });
}

// Powers of doubles: within a unit in the last place of the C library's in long doubles, whatever is next to it, and
// what that says of zeros, infinities, NaN and negative bases.
TEST(LoopsChain, PowersOfDoubles) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  const std::vector<double> special{0.0, -0.0,  1.0,    -1.0,   inf,     -inf, nan,    2.0,         -2.0,       0.5,
                                    3.0, 1e300, 1e-300, 5e-324, -5e-324, -2.5, 0x1p53, 1 + 0x1p-52, 1 - 0x1p-53};
  std::vector<double> x, y;
  const auto add = [&](double base, double exponent) { x.push_back(base), y.push_back(exponent); };
  for (const double base : special)
    for (const double exponent : special) add(base, exponent);
  for (int i = 0; i < 3000; ++i) {
    add(std::fabs(normal(random)), 3 * normal(random));
    add(std::exp(100 * normal(random)), 2 * normal(random));
    add(1.4 + 0.02 * normal(random), 600 * normal(random));
    add(1 + 1e-9 * normal(random), 1e10 * normal(random));
    add(-std::exp(normal(random)), std::round(10 * normal(random)));
  }
  const auto n = static_cast<int64_t>(x.size());
  const auto powers = [](const double* base, const double* exponent, int64_t count, bool same_base,
                         bool same_exponent) {
    KernelBuilder b({count});
    const Ex p = b.load_broadcast(b.input({DType::f64, {same_base ? 1 : count}}));
    const Ex q = b.load_broadcast(b.input({DType::f64, {same_exponent ? 1 : count}}));
    b.store(b.output({DType::f64, {count}}), pow(p, q));
    std::vector<double> out(static_cast<size_t>(count));
    void* args[] = {const_cast<double*>(base), const_cast<double*>(exponent), out.data()};
    Loops(b.finish("powers"), 1).run(args);
    return out;
  };
  on_every_instruction_set([&] {
    const std::vector<double> all = powers(x.data(), y.data(), n, false, false);
    for (size_t i = 0; i < x.size(); ++i) {
      const long double exact = std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
      const double want = std::pow(x[i], y[i]);
      const auto off = std::fabs(static_cast<long double>(all[i]) - exact);
      const auto unit = static_cast<long double>(std::fmax(std::fabs(want) * 0x1p-52, 5e-324));
      EXPECT_TRUE(std::isnan(want) ? std::isnan(all[i])
                                   : (all[i] == want && std::signbit(all[i]) == std::signbit(want)) || off <= unit)
          << x[i] << " to the " << y[i] << ": " << all[i] << " for " << want;
    }
    for (size_t i = 0; i < x.size(); i += 97) {
      const std::vector<double> forms[] = {powers(&x[i], &y[i], 1, false, false), powers(&x[i], &y[i], 21, true, true),
                                           powers(&x[i], std::vector<double>(21, y[i]).data(), 21, true, false),
                                           powers(std::vector<double>(21, x[i]).data(), &y[i], 21, false, true)};
      for (const auto& form : forms)
        for (const double one : form) EXPECT_EQ(std::memcmp(&one, &all[i], 8), 0) << x[i] << " to the " << y[i];
    }
  });
}

}  // namespace
}  // namespace npusim::cpu::loops
