// Functions of floats against the C library's of doubles, wherever an argument lies: from the least number below normal
// ones to the largest, at infinity and NaN, and whatever is next to them.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/loops/check.h"
#include "backends/cpu/loops/loops.h"

namespace npusim::cpu::loops {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  ExprOp op;
  double (*exact)(double);
  double units;  // of the last place it may be off by
};
const Function functions[] = {
    {ExprOp::exp, std::exp, 2},     {ExprOp::exp2, std::exp2, 2},   {ExprOp::expm1, std::expm1, 4},
    {ExprOp::log, std::log, 2},     {ExprOp::log2, std::log2, 3},   {ExprOp::log10, std::log10, 3},
    {ExprOp::log1p, std::log1p, 4}, {ExprOp::tan, std::tan, 1},     {ExprOp::asin, std::asin, 1},
    {ExprOp::acos, std::acos, 1},   {ExprOp::atan, std::atan, 1},   {ExprOp::sinh, std::sinh, 1},
    {ExprOp::cosh, std::cosh, 1},   {ExprOp::tanh, std::tanh, 3},   {ExprOp::asinh, std::asinh, 1},
    {ExprOp::acosh, std::acosh, 1}, {ExprOp::atanh, std::atanh, 1}, {ExprOp::erf, std::erf, 2},
    {ExprOp::erfc, std::erfc, 3},   {ExprOp::sin, std::sin, 2},     {ExprOp::cos, std::cos, 2},
};

// Special values; any bits, so that all magnitudes come alike; numbers below normal ones; and those whose squares and
// cubes are so.
std::vector<float> arguments() {
  std::mt19937 random(11);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<float> x{0,       inf,  nan,     1,    1e-45f,      1.17549421e-38f, 1.17549435e-38f,
                       3.4e38f, 8192, 8192.5f, 1e6f, 1.0000001e6f};
  for (int i = 0; i < 3000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random()) >> 1));
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random()) >> 9));
    x.push_back(static_cast<float>(std::exp2(uniform(-80, -40))));
    x.push_back(static_cast<float>(std::exp2(uniform(-30, 8))));
    x.push_back(static_cast<float>(uniform(80, 110)));
    x.push_back(static_cast<float>(std::round(std::exp(uniform(0, 80))) * 1.5707963267948966));
  }
  const size_t both = x.size();
  for (size_t i = 0; i < both; ++i) x.push_back(-x[i]);
  return x;
}

double off(float value, double exact) {
  const auto near = static_cast<float>(exact);
  if (std::isnan(near)) return std::isnan(value) ? 0 : 1e9;
  if (std::isinf(near) || near == 0) {
    const bool adjacent = std::isinf(near) ? std::fabs(value) == std::numeric_limits<float>::max()
                                           : std::fabs(value) == std::numeric_limits<float>::denorm_min();
    if (std::signbit(value) != std::signbit(near)) return 1e9;
    return value == near ? 0 : adjacent ? 1 : 1e9;
  }
  int exponent = 0;
  std::frexp(near, &exponent);
  return std::fabs(static_cast<double>(value) - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

// Of rows of one element, or of all: an angle's row may say how it is reduced.
std::vector<float> values(ExprOp op, const std::vector<float>& x, bool alone) {
  const auto n = static_cast<int64_t>(x.size()), columns = alone ? 1 : n;
  KernelBuilder b({n / columns, columns});
  const int p = b.input({DType::f32, {n / columns, columns}});
  b.store(b.output({DType::f32, {n / columns, columns}}), b.unary(op, b.load_broadcast(p)));
  std::vector<float> out(x.size());
  void* args[] = {const_cast<float*>(x.data()), out.data()};
  Loops(b.finish("float"), 1).run(args);
  return out;
}

TEST(Floats, FunctionsOfOne) {
  const std::vector<float> x = arguments();
  for (const Function& f : functions)
    on_every_instruction_set([&] {
      for (const bool alone : {false, true}) {
        const std::vector<float> all = values(f.op, x, alone);
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_LE(off(all[i], f.exact(static_cast<double>(x[i]))), f.units)
              << expr_op_name(f.op) << " of " << x[i] << ": " << all[i] << (alone ? ", alone" : "");
      }
    });
}

// 1 + erf(x), of which a GELU is made, to 1e-7 of 1; where erf is near −1 most of its digits are in erfc(−x).
TEST(Floats, SharesOfGelus) {
  std::vector<float> x = arguments();
  for (int i = -60000; i <= 60000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  const auto n = static_cast<int64_t>(x.size());
  KernelBuilder b({n});
  const Ex in = b.load_broadcast(b.input({DType::f32, {n}}));
  b.store(b.output({DType::f32, {n}}), 1 + erf(in));
  const Kernel kernel = b.finish("share");
  on_every_instruction_set([&] {
    std::vector<float> out(x.size());
    void* args[] = {x.data(), out.data()};
    Loops(kernel, 1).run(args);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::erfc(-static_cast<double>(x[i]));
      ASSERT_TRUE(std::isnan(exact) ? std::isnan(out[i]) : std::fabs(out[i] - exact) <= 2.4e-7) << x[i];
      ASSERT_FALSE(out[i] < 0) << x[i];
      if (x[i] < 0 && x[i] > -2.5f) {
        ASSERT_NEAR(out[i] / exact, 1, 3e-3) << x[i];
      }
    }
  });
}

std::vector<float> values(ExprOp op, const std::vector<float>& x, const std::vector<float>& y) {
  const auto n = static_cast<int64_t>(std::max(x.size(), y.size()));
  KernelBuilder b({n});
  const Ex p = b.load_broadcast(b.input({DType::f32, {static_cast<int64_t>(x.size())}}));
  const Ex q = b.load_broadcast(b.input({DType::f32, {static_cast<int64_t>(y.size())}}));
  b.store(b.output({DType::f32, {n}}), b.binary(op, p, q));
  std::vector<float> out(static_cast<size_t>(n));
  void* args[] = {const_cast<float*>(x.data()), const_cast<float*>(y.data()), out.data()};
  Loops(b.finish("float"), 1).run(args);
  return out;
}

// Powers and angles within a unit, rests exactly, of special values in all pairs and of any bits.
TEST(Floats, FunctionsOfTwo) {
  std::mt19937 random(12);
  std::normal_distribution<float> normal;
  std::vector<float> x, y;
  const auto add = [&](float a, float b) { x.push_back(a), y.push_back(b); };
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  const std::vector<float> special{0.0f,   -0.0f,  1,        -1,       inf,    -inf,       nan,
                                   2,      -3,     0.5f,     -2.5,     1e-45f, -1e-40f,    3e38f,
                                   -3e38f, 1e-30f, 16777218, 16777215, -1e9f,  0.99999994f};
  for (const float a : special)
    for (const float b : special) add(a, b);
  for (int i = 0; i < 4000; ++i) {
    add(any(), any());
    add(any(), normal(random));
    add(any(), std::round(4 * normal(random)));
    add(normal(random), any());
    add(1 + 1e-3f * normal(random), 1e5f * normal(random));
    add(std::bit_cast<float>(static_cast<uint32_t>(random()) >> 9), normal(random));
  }
  const struct {
    ExprOp op;
    double (*exact)(double, double);
    double units;
  } all[] = {{ExprOp::pow, std::pow, 1}, {ExprOp::atan2, std::atan2, 1}, {ExprOp::fmod, std::fmod, 0}};
  for (const auto& f : all)
    on_every_instruction_set([&] {
      const std::vector<float> found = values(f.op, x, y);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(off(found[i], f.exact(static_cast<double>(x[i]), static_cast<double>(y[i]))), f.units)
            << expr_op_name(f.op) << " of " << x[i] << " and " << y[i] << ": " << found[i];
      for (size_t i = 0; i < x.size(); i += 331) {
        const std::vector<float> a(21, x[i]), b(21, y[i]);
        for (const auto& form : {values(f.op, std::vector<float>(1, x[i]), b),
                                 values(f.op, a, std::vector<float>(1, y[i])), values(f.op, a, b)})
          for (const float one : form)
            EXPECT_TRUE(std::isnan(one) ? std::isnan(found[i])
                                        : std::bit_cast<uint32_t>(one) == std::bit_cast<uint32_t>(found[i]))
                << expr_op_name(f.op) << " of " << x[i] << " and " << y[i];
      }
    });
}

}  // namespace
}  // namespace npusim::cpu::loops
