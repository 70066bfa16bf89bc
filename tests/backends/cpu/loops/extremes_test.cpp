// Kernels as a stranger's file may have them, with coordinates at every limit: what check_kernel() accepts stays within
// its arguments and means in the loops what it means to the interpreter.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "backends/cpu/loops/loops.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/tensor.h"
#include "kernel/evaluate.h"

namespace npusim::cpu::loops {
namespace {

constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();

struct Draw {
  std::mt19937_64 random;
  bool chance(double p) { return std::bernoulli_distribution(p)(random); }
  int64_t whole(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  int64_t one(std::initializer_list<int64_t> of) { return of.begin()[whole(0, static_cast<int64_t>(of.size()) - 1)]; }
  // Mostly small; else at a limit of what files may hold, or next to it.
  int64_t number(double extreme) {
    if (!chance(extreme)) return whole(-2, 3);
    const int64_t at = one({0, int64_t{1} << 20, int64_t{1} << 40, int64_t{1} << 56, int64_t{3} << 54, int64_t{1} << 60,
                            int64_t{1} << 62, most, least});
    return at == least ? least + whole(0, 1) : chance(0.5) ? at - whole(0, 1) : -at + whole(0, 1);
  }
};

Guard drawn_guard(Draw& d, const std::vector<int64_t>& space, double extreme) {
  Guard g{{}, d.number(extreme), 0, d.chance(0.5) ? 0 : d.number(extreme)};
  for (size_t n = 0; n < space.size(); ++n) g.coeffs.push_back(d.chance(0.5) ? 0 : d.number(extreme));
  g.limit = d.chance(extreme) ? d.number(1) : d.whole(0, 20);
  if (d.chance(extreme) && !space.empty()) {  // holds at the end of a dimension alone, in steps however large
    const int64_t step = d.one({1, int64_t{1} << 50, int64_t{3} << 52, int64_t{1} << 54});
    g.coeffs.assign(space.size(), 0);
    g.coeffs.back() = step;
    g.offset = static_cast<int64_t>(static_cast<uint64_t>(-step) * static_cast<uint64_t>(space.back() - 1));
    g.limit = d.one({1, 2, int64_t{1} << 60, most});
  }
  return g;
}

Access drawn_access(Draw& d, int arg, const std::vector<int64_t>& space, double extreme) {
  Access a{arg, d.chance(0.7) ? 0 : d.number(extreme), {}, {}, {}};
  for (size_t n = 0; n < space.size(); ++n) a.strides.push_back(d.chance(0.4) ? 0 : d.number(extreme));
  for (int64_t n = d.whole(0, 2); n > 0; --n) a.guards.push_back(drawn_guard(d, space, extreme));
  if (d.chance(0.2))  // what stores nothing may trap or not: here no index leaves its extent
    for (int64_t n = d.chance(extreme) ? d.whole(60, 70) : 1; n > 0; --n)
      a.terms.push_back(
          {0, d.chance(0.5) ? 0 : d.number(extreme), std::max<int64_t>(d.chance(extreme) ? d.number(1) : 0, 3)});
  return a;
}

Kernel drawn_kernel(Draw& d) {
  Kernel k;
  k.name = "extreme";
  for (int64_t n = d.whole(0, 3); n > 0; --n) k.space.push_back(d.one({0, 1, 1, 2, 3, 5, 17, 40}));
  k.row_dims = static_cast<int>(d.whole(0, std::min<int64_t>(static_cast<int64_t>(k.space.size()), 2)));
  const double extreme = d.one({0, 1, 1, 2}) * 0.1;
  std::vector<int64_t> stored = k.space;
  const bool of_rows = k.row_dims > 0 && d.chance(0.5);
  for (size_t n = k.space.size() - static_cast<size_t>(k.row_dims); of_rows && n < k.space.size(); ++n) stored[n] = 1;
  Access to{2, 0, row_major_strides(stored), {}, {}};
  for (size_t n = 0; n < stored.size(); ++n)
    if (stored[n] == 1) to.strides[n] = 0;
  if (d.chance(0.3)) to.guards.push_back(drawn_guard(d, k.space, extreme));
  if (d.chance(extreme)) to.offset = d.number(1);
  k.args = {{DType::f32, d.one({0, 1, 8, 64}), false, -1},
            {DType::f32, d.whole(1, 64), false, -1},
            {DType::f32, element_count(stored), true, -1}};
  k.exprs.push_back({.op = ExprOp::constant, .type = Scalar::i64, .integer = d.whole(0, 2)});
  for (const int arg : {0, 1}) {
    k.accesses.push_back(drawn_access(d, arg, k.space, extreme));
    k.exprs.push_back({.op = ExprOp::load, .type = Scalar::f32, .integer = arg});
  }
  const auto add = [&](ExprOp op, int32_t x, int32_t y) {
    k.exprs.push_back({.op = op, .type = Scalar::f32, .in = {x, y, -1}});
    return static_cast<int32_t>(k.exprs.size()) - 1;
  };
  int32_t result = add(ExprOp::add, 1, 2);
  if (of_rows || (k.row_dims > 0 && d.chance(0.5))) result = add(ExprOp::reduce, result, -1);
  k.stores = {{to, result, false}};
  return k;
}

// Whether the kernel ran without a trap, and what it left.
bool same(const Kernel& k, Draw& d) {
  std::vector<std::vector<float>> memory;
  for (const KernelArg& arg : k.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements));
    for (float& x : memory.back()) x = static_cast<float>(d.whole(-8, 8));
  }
  const auto run = [&](std::vector<std::vector<float>> on, auto&& how) {
    std::vector<void*> args;
    for (std::vector<float>& one : on)
      one.reserve(1), args.push_back(one.data());  // a buffer without elements is somewhere
    const bool ended = how(args);
    return std::pair(ended, ended ? on.back() : std::vector<float>{});
  };
  const auto found = run(memory, [&](std::vector<void*>& args) { return Loops(k, 2).run(args.data()); });
  const auto wanted = run(memory, [&](std::vector<void*>& args) {
    try {
      evaluate(k, args);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
  return found == wanted;
}

TEST(Loops, CoordinatesAtTheirLimits) {
  Draw d{std::mt19937_64{44}};
  int accepted = 0;
  for (int n = 0; n < 200000; ++n) {
    const Kernel k = drawn_kernel(d);
    if (!check_kernel(k).empty()) continue;
    ++accepted;
    ASSERT_TRUE(same(k, d)) << to_text(k);
  }
  EXPECT_GT(accepted, 20000);
}

}  // namespace
}  // namespace npusim::cpu::loops
