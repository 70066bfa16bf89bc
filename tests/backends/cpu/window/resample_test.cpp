// Resampling of one, two and three dimensions against the scalar interpreter: extents, numbers of taps, order in
// memory, what follows the sums, special values, and sums that are left to loops.
#include "backends/cpu/window/resample.h"

#include <algorithm>

#include "backends/cpu/check_step.h"

namespace npusim::cpu::window {
namespace {

struct Side {
  int64_t in = 5, out = 8, taps = 2;
};
struct Form {
  std::vector<Side> sides = {};
  int64_t channels = 3;
  bool more = false;     // something is made of the sums
  bool crossed = false;  // a weight is of two dimensions: no resampling
  bool last = false;     // channels lie side by side
};

Ex sum_of(KernelBuilder& k, const Form& f, int from, std::vector<Coord>& at, size_t n) {
  if (n == f.sides.size()) {
    std::vector<Coord> index = at;
    if (f.last) std::rotate(index.begin(), index.begin() + 1, index.end());
    return k.load(from, index);
  }
  const Side& side = f.sides[n];
  const int dim = static_cast<int>(n) + 1;
  Ex sum;
  for (int64_t t = 0; t < side.taps; ++t) {
    const Ex begin = k.binary(ExprOp::idiv, k.index(dim) * side.in, k.integer(side.out));
    at[static_cast<size_t>(dim)] = Coord(min(begin + t, side.in - 1));
    Ex weight = k.cast(k.index(dim), Scalar::f32) * 0.03125 + (0.5 - 0.25 * static_cast<double>(t));
    if (f.crossed && n == 0) weight = weight + k.cast(k.index(0), Scalar::f32);
    const Ex term = sum_of(k, f, from, at, n + 1) * weight;
    sum = t == 0 ? term : sum + term;
  }
  return sum;
}

Kernel kernel_of(const Form& f) {
  Shape space{f.channels}, image{f.channels};
  for (const Side& s : f.sides) space.push_back(s.out), image.push_back(s.in);
  if (f.last) std::rotate(image.begin(), image.begin() + 1, image.end());
  KernelBuilder k(space);
  const int from = k.input({DType::f32, image}), scale = k.input({DType::f32, space}),
            out = k.output({DType::f32, space});
  std::vector<Coord> at{k.dim(0)}, to{k.dim(0)};
  at.resize(space.size(), Coord(int64_t{0}));
  for (size_t n = 0; n < f.sides.size(); ++n) to.emplace_back(k.dim(static_cast<int>(n) + 1));
  Ex x = sum_of(k, f, from, at, 0);
  if (f.more) x = max(x * k.load(scale, to), -1.0);
  k.store(out, to, x);
  return k.finish("resampled");
}

bool run_as_interpreted(const Form& f, unsigned seed, int threads) {
  Check check;
  check.seed = seed, check.tolerance = 2e-5;
  if (seed % 3 == 0) check.special = {0, -0.0, 1, std::nan("")};
  return step_is_as_interpreted(kernel_of(f), check, threads, make_resample_step);
}

TEST(Resampling, IsThatOfTheInterpreter) {
  on_every_instruction_set([] {
    std::mt19937 random(7);
    const auto one = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    for (unsigned n = 0; n < 60; ++n) {
      Form f{.channels = one(1, 4), .more = one(0, 1) == 0};
      for (int64_t sides = one(1, 3); sides > 0; --sides)
        f.sides.push_back({one(1, 12), one(2, sides == 1 ? 40 : 9), one(2, 4)});
      EXPECT_TRUE(run_as_interpreted(f, n, static_cast<int>(one(1, 3)))) << to_text(kernel_of(f));
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(run_as_interpreted({{{40, 80}, {50, 100}}, 20}, 2, 3));
  });
}

TEST(Resampling, OfWeightsOfSeveralDimensionsIsLeftToLoops) {
  EXPECT_FALSE(run_as_interpreted({.sides = {{5, 8, 2}, {6, 9, 2}}, .crossed = true}, 1, 1));
  EXPECT_FALSE(run_as_interpreted({.sides = {{5, 8, 2}, {6, 9, 2}}, .channels = 64, .last = true}, 1, 1));
}

// Rows that are resampled twice along themselves, one sum within the other; also all of one element.
TEST(Resampling, TwiceAlongOneDimensionIsLeftToLoops) {
  for (const int64_t apart : {0, 1}) {
    constexpr int64_t columns = 40;
    KernelBuilder k({3, columns});
    const int from = k.input({DType::f32, {3, 50}});
    const auto element = [&](int64_t ahead) {
      return k.load(from, std::vector<Coord>{k.dim(0), Coord(min(k.index(1) + (ahead * apart + 1), 49))});
    };
    const Ex along = k.cast(k.index(1), Scalar::f32), one = along * 0.25 + 1.0, two = along * -0.5 + 2.0;
    const auto pair = [&](int64_t ahead) { return element(ahead) * one + element(ahead + 1) * two; };
    const Ex sum = pair(0) * (along * 0.125) + pair(3) * (1.0 - along * 0.125);
    k.store(k.output({DType::f32, {3, columns}}), std::vector<Coord>{k.dim(0), k.dim(1)}, sum);
    step_is_as_interpreted(k.finish("twice"), {}, 2, make_resample_step);
  }
}

}  // namespace
}  // namespace npusim::cpu::window
