// Functions of doubles against the C library's in long doubles, wherever an argument lies.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/loops/check.h"
#include "backends/cpu/loops/loops.h"

namespace npusim::cpu::loops {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct Function {
  ExprOp op;
  long double (*exact)(long double);
  double (*library)(double);
  double low, high;  // where most arguments are
};
const Function functions[] = {
    {ExprOp::log, std::log, std::log, 0, 50},
    {ExprOp::exp, std::exp, std::exp, -40, 40},
    {ExprOp::exp2, std::exp2, std::exp2, -40, 40},
    {ExprOp::expm1, std::expm1, std::expm1, -5, 5},
    {ExprOp::log2, std::log2, std::log2, 0, 50},
    {ExprOp::log10, std::log10, std::log10, 0, 50},
    {ExprOp::log1p, std::log1p, std::log1p, -1, 9},
    {ExprOp::sin, std::sin, std::sin, -40, 40},
    {ExprOp::cos, std::cos, std::cos, -40, 40},
    {ExprOp::tan, std::tan, std::tan, -40, 40},
    {ExprOp::asin, std::asin, std::asin, -1.01, 1.01},
    {ExprOp::acos, std::acos, std::acos, -1.01, 1.01},
    {ExprOp::atan, std::atan, std::atan, -5, 5},
    {ExprOp::sinh, std::sinh, std::sinh, -5, 5},
    {ExprOp::cosh, std::cosh, std::cosh, -5, 5},
    {ExprOp::tanh, std::tanh, std::tanh, -5, 5},
    {ExprOp::asinh, std::asinh, std::asinh, -5, 5},
    {ExprOp::acosh, std::acosh, std::acosh, 1, 9},
    {ExprOp::atanh, std::atanh, std::atanh, -1, 1},
    {ExprOp::erf, std::erf, std::erf, -4, 4},
    {ExprOp::erfc, std::erfc, std::erfc, -3, 28},
    {ExprOp::floor, std::floor, std::floor, -40, 40},
    {ExprOp::ceil, std::ceil, std::ceil, -40, 40},
    {ExprOp::trunc, std::trunc, std::trunc, -40, 40},
    {ExprOp::round, std::nearbyint, std::nearbyint, -40, 40},
};

// Special values and what is next to the points where a function's parts meet; any bits; many of its own range, near 0,
// near 1, near multiples of π/2, large ones, and such that are below normal numbers or whose powers are.
std::vector<double> arguments(const Function& f) {
  std::mt19937_64 random(7);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<double> x{nan,
                        inf,
                        5e-324,
                        1e-310,
                        0x1p-1022,
                        1.7e308,
                        0x1.6a09e667f3bcdp1023,
                        0x1.6ac5b262ca1ffp+849,  // of all doubles the nearest one to a multiple of π/2
                        0.0};
  for (const double at : {0.25,    0.41421356237309503,
                          0.5,     1.0,
                          2.0,     2.414213562373095,
                          3.0,     5.5,
                          6.0,     22.0,
                          26.0,    26.5,
                          27.3,    28.0,
                          50.0,    700.0,
                          709.0,   709.5,
                          709.9,   710.5,
                          745.5,   1000.0,
                          1023.5,  1074.5,
                          0x1p-27, 0x1p-26,
                          0x1p30,  0x1p51,
                          0x1p52,  0x1p53,
                          0x1p60,  1e22,
                          1e300})
    for (const double near : {std::nextafter(at, 0), at, std::nextafter(at, inf)}) x.push_back(near);
  for (int i = 0; i < 2000; ++i) {
    x.push_back(std::bit_cast<double>(random()));
    x.push_back(std::exp(uniform(-45, 45)));
    x.push_back(1 + std::exp(uniform(-40, 0)));
    x.push_back(1 - std::exp(uniform(-40, 0)));
    x.push_back(std::round(std::exp(uniform(0, 21))) * 1.5707963267948966);
  }
  const size_t both = x.size();
  for (size_t i = 0; i < both; ++i) x.push_back(-x[i]);
  for (int i = 0; i < 20000; ++i) x.push_back(uniform(f.low, f.high));
  for (int i = 0; i < 2000; ++i) {
    x.push_back(std::round(std::exp(uniform(0, 700))) * 1.5707963267948966);
    x.push_back(std::bit_cast<double>(random() >> 12));  // below normal numbers
    x.push_back(std::exp2(uniform(-545, -330)));         // whose squares, or cubes, are
    x.push_back(uniform(690, 750));
    for (int j = 0; j < 4; ++j) x.push_back(-*(x.end() - 4));
  }
  return x;
}

std::vector<double> values(ExprOp op, const std::vector<double>& x) {
  const auto n = static_cast<int64_t>(x.size());
  KernelBuilder b({n});
  const int p = b.input({DType::f64, {n}});
  b.store(b.output({DType::f64, {n}}), b.unary(op, b.load_broadcast(p)));
  std::vector<double> out(x.size());
  void* args[] = {const_cast<double*>(x.data()), out.data()};
  Loops(b.finish("double"), 1).run(args);
  return out;
}

// How far from what is exact, in units of the last place of the double next to it.
double off(double value, long double exact) {
  const auto near = static_cast<double>(exact);
  if (std::isnan(near)) return std::isnan(value) ? 0 : inf;
  if (std::isinf(near) || near == 0) return value == near && std::signbit(value) == std::signbit(near) ? 0 : inf;
  int exponent = 0;
  std::frexp(near, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent, -1021) - 53);
  return static_cast<double>(std::fabs(static_cast<long double>(value) - exact) / unit);
}

// Within a unit, or as the C library has it; whatever is next to it.
TEST(Doubles, FunctionsOfOne) {
  for (const Function& f : functions) {
    const std::vector<double> x = arguments(f);
    on_every_instruction_set([&] {
      const std::vector<double> all = values(f.op, x);
      for (size_t i = 0; i < x.size(); ++i) {
        const double here = off(all[i], f.exact(static_cast<long double>(x[i])));
        ASSERT_TRUE(here <= 1 || all[i] == f.library(x[i]))
            << expr_op_name(f.op) << " of " << x[i] << ": " << all[i] << ", off by " << here;
      }
      for (size_t i = 0; i < x.size(); i += 997)
        EXPECT_EQ(std::memcmp(&values(f.op, {x[i]})[0], &all[i], 8), 0) << expr_op_name(f.op) << " of " << x[i];
    });
  }
}

std::vector<double> values(ExprOp op, const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<int64_t>(std::max(x.size(), y.size()));
  KernelBuilder b({n});
  const Ex p = b.load_broadcast(b.input({DType::f64, {static_cast<int64_t>(x.size())}}));
  const Ex q = b.load_broadcast(b.input({DType::f64, {static_cast<int64_t>(y.size())}}));
  b.store(b.output({DType::f64, {n}}), b.binary(op, p, q));
  std::vector<double> out(static_cast<size_t>(n));
  void* args[] = {const_cast<double*>(x.data()), const_cast<double*>(y.data()), out.data()};
  Loops(b.finish("double"), 1).run(args);
  return out;
}

// Angles and powers within a unit, rests exactly; of special values in all pairs, of numbers of all sizes, and of
// quotients near whole numbers.
TEST(Doubles, FunctionsOfTwo) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  std::vector<double> x, y;
  const auto add = [&](double a, double b) { x.push_back(a), y.push_back(b); };
  const std::vector<double> special{0.0, -0.0, 1.0,    -1.0,    inf,     -inf,     nan,   2.0,    -3.0,
                                    5.5, 0.41, 5e-324, -1e-310, 0x1p400, 0x1p-400, 1e300, -1e308, 1e-300};
  for (const double a : special)
    for (const double b : special) add(a, b);
  for (int i = 0; i < 4000; ++i) {
    add(normal(random), normal(random));
    add(std::exp(100 * normal(random)), -std::exp(100 * normal(random)));
    add(-std::exp(15 * normal(random)), std::exp(10 * normal(random)));
    const double b = normal(random), whole = std::round(1000 * normal(random)) * b;
    add(std::nextafter(whole, i % 2 ? inf : -inf), b);
    const double any = std::bit_cast<double>(random());
    add(any, std::bit_cast<double>(random()));
    add(any, normal(random));
    add(any, std::round(4 * normal(random)));
    add(normal(random), any);
    add(std::bit_cast<double>(random() >> 12), normal(random));
    add(1 + 1e-6 * normal(random), 1e8 * normal(random));
  }
  on_every_instruction_set([&] {
    const std::vector<double> angles = values(ExprOp::atan2, x, y), rests = values(ExprOp::fmod, x, y);
    const std::vector<double> powers = values(ExprOp::pow, x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      const double rest = std::fmod(x[i], y[i]), angle = std::atan2(x[i], y[i]);
      ASSERT_TRUE(std::isnan(rest) ? std::isnan(rests[i])
                                   : rests[i] == rest && std::signbit(rests[i]) == std::signbit(rest))
          << x[i] << " fmod " << y[i] << ": " << rests[i] << " for " << rest;
      const double here = off(angles[i], std::atan2(static_cast<long double>(x[i]), static_cast<long double>(y[i])));
      const bool sign = std::isnan(angle) || std::signbit(angles[i]) == std::signbit(angle);
      ASSERT_TRUE((here <= 1 && sign) || angles[i] == angle)
          << "atan2 of " << x[i] << " and " << y[i] << ": " << angles[i] << ", off by " << here;
      const double there = off(powers[i], std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i])));
      ASSERT_TRUE(there <= 1 || powers[i] == std::pow(x[i], y[i]))
          << x[i] << " to " << y[i] << ": " << powers[i] << ", off by " << there;
    }
    for (const ExprOp op : {ExprOp::atan2, ExprOp::fmod, ExprOp::pow})
      for (size_t i = 0; i < x.size(); i += 331) {
        const double want = (op == ExprOp::fmod ? rests : op == ExprOp::pow ? powers : angles)[i];
        const std::vector<double> a(21, x[i]), b(21, y[i]);
        for (const auto& form : {values(op, {x[i]}, b), values(op, a, {y[i]}), values(op, a, b)})
          for (const double one : form) EXPECT_EQ(std::memcmp(&one, &want, 8), 0) << x[i] << ", " << y[i];
      }
  });
}

}  // namespace
}  // namespace npusim::cpu::loops
