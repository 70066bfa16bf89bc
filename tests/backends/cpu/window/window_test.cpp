// Windows that slide over memory against the scalar interpreter: sizes, padding, steps, dtypes, order in memory,
// windows of different lengths, indices of maxima, NaN and equal elements, what follows the fold, and kernels left to
// loops.
#include "backends/cpu/window/window.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/check_step.h"
#include "kernel/facts/range.h"

namespace npusim::cpu::window {
namespace {

enum class Kind { average, maximum, argmax };

struct Side {
  int64_t extent = 8, count = 4, size = 3, step = 2, dilation = 1, padding = 1;
  bool even = true;  // else window o covers what count windows share of the extent, at most `size`
};

struct Form {
  std::vector<Side> sides = {};
  int64_t channels = 3;
  Kind kind = Kind::average;
  DType dtype = DType::f32;
  bool last = false;  // channels lie side by side
  bool more = false;  // something is made of the folds
};

Side even(int64_t extent, int64_t size, int64_t step, int64_t dilation, int64_t padding) {
  const int64_t room = extent + 2 * padding - dilation * (size - 1) - 1;
  return {extent, std::max<int64_t>(room, 0) / step + 1, size, step, dilation, padding, true};
}
Side shared(int64_t extent, int64_t count) {
  Side side{extent, count, 0, 1, 1, 0, false};
  for (int64_t o = 0; o < count; ++o)
    side.size = std::max(side.size, ((o + 1) * extent + count - 1) / count - o * extent / count);
  return side;
}

// One window of all.
Side whole(int64_t extent) { return even(extent, extent, 1, 1, 0); }

Kernel kernel_of(const Form& f) {
  const int n = static_cast<int>(f.sides.size());
  Shape space{f.channels}, image{f.channels}, result{f.channels};
  for (const Side& s : f.sides) space.push_back(s.count), image.push_back(s.extent), result.push_back(s.count);
  for (const Side& s : f.sides) space.push_back(s.size);
  const auto order = [&](auto list) {
    if (f.last) std::rotate(list.begin(), list.begin() + 1, list.end());
    return list;
  };
  KernelBuilder k(space, n);
  const int from = k.input({f.dtype, order(image)});
  const int scale = f.more && is_float(f.dtype) ? k.input({DType::f32, result}) : -1;
  const int out = k.output({f.dtype, order(result)});
  const int out_index = f.kind == Kind::argmax ? k.output({DType::i64, order(result)}) : -1;
  std::vector<Coord> at{k.dim(0)}, to{k.dim(0)};
  Ex inside = k.integer(1, Scalar::boolean), index = k.integer(0);
  bool leaves = false;
  int64_t apart = 1;  // indices of neighbours
  for (const Side& s : f.sides) apart *= s.extent;
  for (int d = 0; d < n; ++d) {
    const Side& s = f.sides[static_cast<size_t>(d)];
    const Affine along = k.dim(1 + n + d), window = k.dim(1 + d);
    to.emplace_back(window);
    apart /= s.extent;
    std::optional<Ex> in;
    if (s.even) {
      const Affine where = window * s.step + along * s.dilation + -s.padding;
      at.emplace_back(where);
      index = index + k.value(where * apart);
      if (s.padding > 0 || (s.count - 1) * s.step + (s.size - 1) * s.dilation >= s.extent)
        in = k.in_bounds(where, s.extent);
    } else {
      const auto border = [&](const Affine& a) { return k.binary(ExprOp::idiv, k.value(a), k.integer(s.count)); };
      const Ex start = border(window * s.extent), end = border(window * s.extent + (s.extent + s.count - 1));
      at.emplace_back(k.binary(ExprOp::min, start + k.value(along), k.integer(s.extent - 1)));
      index = index + start * apart + k.value(along * apart);
      in = k.value(along) < end - start;
    }
    if (in) inside = leaves ? inside && *in : *in, leaves = true;
  }
  const double identity = f.kind == Kind::average ? 0 : -std::numeric_limits<double>::infinity();
  Ex x = k.load(from, order(at));
  const bool whole = !is_float(f.dtype);
  const auto range = element_range(f.dtype);
  const int64_t least = range ? range->low : std::numeric_limits<int64_t>::min();
  const Ex none = whole ? k.integer(f.kind == Kind::average ? 0 : least) : k.number(identity);
  if (leaves) x = k.select(inside, x, none);
  Ex folded = k.reduce(f.kind == Kind::average ? Reduction::sum : Reduction::max, x);
  if (f.kind == Kind::argmax) {
    const Ex hit = leaves ? inside && x == folded : x == folded;
    const Ex first = k.reduce(Reduction::min, k.select(hit, index, k.integer(std::numeric_limits<int64_t>::max())));
    k.store(out_index, order(to),
            whole ? first
                  : k.select(isnan(folded), k.reduce(Reduction::max, k.select(isnan(x), index, k.integer(-1))), first));
  }
  if (f.more) folded = whole ? folded * 3 + 1 : folded * k.load(scale, to) + 1.0;
  k.store(out, order(to), folded);
  return k.finish("windows");
}

// Whether the kernel is one of windows; then its results are checked.
bool run_as_interpreted(const Form& f, unsigned seed, int threads) {
  Check check;
  check.seed = seed, check.tolerance = 2e-5;
  if (seed % 2 == 0) check.special = {0, 1, 1, -0.0, -std::numeric_limits<double>::infinity(), 2};
  if (seed % 4 == 0) check.special.push_back(std::nan(""));
  return step_is_as_interpreted(kernel_of(f), check, threads, make_window_step);
}

TEST(Windows, AreThoseOfTheInterpreter) {
  on_every_instruction_set([] {
    std::mt19937 random(11);
    const auto one = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    int found = 0;
    for (unsigned n = 0; n < 160; ++n) {
      Form f{.channels = one(1, 9), .kind = static_cast<Kind>(one(0, 2))};
      for (int64_t sides = one(1, 3), side = 0; side < sides; ++side) {
        const int64_t extent = one(1, side == 0 ? 20 : 6);
        if (side > 0 && one(0, 3) == 0) {
          f.sides.push_back(whole(extent));
          continue;
        }
        if (one(0, 3) == 0) {
          f.sides.push_back(shared(extent, one(1, extent + 2)));
          continue;
        }
        const int64_t size = one(1, std::min<int64_t>(extent, 5)),
                      dilation = size > 1 ? one(1, (extent - 1) / (size - 1)) : 1;
        f.sides.push_back(even(extent, size, one(1, 3), std::min<int64_t>(dilation, 2), one(0, size / 2)));
      }
      constexpr DType others[] = {DType::f16, DType::bf16, DType::f64, DType::i64,
                                  DType::i32, DType::i16,  DType::i8,  DType::u8};
      f.dtype = one(0, 1) > 0 ? DType::f32 : others[one(0, 7)];
      f.last = one(0, 2) == 0, f.more = one(0, 2) == 0;
      found += run_as_interpreted(f, n, static_cast<int>(one(1, 3)));
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(found, 30);
  });
}

TEST(Windows, AreThoseOfPools) {
  on_every_instruction_set([] {
    for (const Kind kind : {Kind::average, Kind::maximum, Kind::argmax})
      for (const unsigned seed : {1u, 2u, 4u}) {
        const Side padded = even(19, 3, 2, 1, 1), dense = even(36, 2, 2, 1, 0), wide = shared(270, 2);
        EXPECT_TRUE(run_as_interpreted({{padded}, 5, kind}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{padded, padded}, 5, kind, DType::f32, false, true}, seed, 1));
        EXPECT_TRUE(run_as_interpreted({{dense, dense}, 2, kind}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{even(5, 3, 2, 1, 1), even(7, 3, 2, 1, 1), padded}, 2, kind}, seed, 3));
        EXPECT_TRUE(run_as_interpreted({{shared(17, 5), shared(23, 7)}, 4, kind}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{wide}, 3, kind}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{shared(17, 5), shared(23, 7)}, 4, kind, DType::f64, false, true}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{shared(270, 3)}, 3, kind, DType::f64}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{padded, padded}, 5, kind, DType::i64, false, true}, seed, 1));
        const Side few = even(5, 3, 2, 1, 1), many = even(9, 7, 2, 1, 3);
        EXPECT_TRUE(run_as_interpreted({{few, many}, 75, kind, DType::f32, true}, seed, 2));
        EXPECT_TRUE(run_as_interpreted({{few, many}, 9, kind, DType::bf16, true, true}, seed, 2));
        // Of few taps of channels side by side loops are as good, but for argmax.
        EXPECT_EQ(run_as_interpreted({{few, few}, 32, kind, DType::f32, true}, seed, 2), kind == Kind::argmax);
      }
  });
}

// Windows that are whole lines of memory, of which the index counts: as one long line each, or next to their
// neighbours.
TEST(Windows, OfWholeLinesAreRuns) {
  on_every_instruction_set([] {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i64})
      for (const unsigned seed : {1u, 2u, 4u}) {
        const auto is_one = [&](std::vector<Side> sides, int64_t channels) {
          return run_as_interpreted({std::move(sides), channels, Kind::argmax, dtype, false, seed == 2}, seed, 2);
        };
        EXPECT_TRUE(is_one({whole(20), whole(30)}, 5));
        EXPECT_TRUE(is_one({whole(7), whole(7)}, 70));
        EXPECT_FALSE(is_one({whole(70), whole(70)}, 2));  // more than a line holds
        EXPECT_TRUE(is_one({shared(17, 5), whole(8)}, 3));
        EXPECT_TRUE(is_one({shared(56, 3), whole(14)}, 3));
        EXPECT_TRUE(is_one({even(12, 4, 4, 1, 0), whole(9)}, 4));
        EXPECT_TRUE(is_one({even(12, 4, 3, 1, 0), whole(40)}, 4));
        EXPECT_TRUE(is_one({even(9, 3, 2, 1, 1), whole(6)}, 4));
        EXPECT_TRUE(is_one({whole(5), whole(6), whole(7)}, 3));
        EXPECT_TRUE(is_one({shared(5, 3), even(6, 2, 2, 1, 0), whole(7)}, 3));
        EXPECT_TRUE(is_one({shared(8, 3), whole(20), whole(8)}, 2));
      }
  });
}

// Rows that do not slide are sums of rows, and no windows.
TEST(Windows, AreNotOtherReductions) {
  KernelBuilder k({20, 30}, 1);
  const int from = k.input({DType::f32, {20, 30}}), out = k.output({DType::f32, {20}});
  k.store(out, std::vector<Coord>{k.dim(0)},
          k.reduce(Reduction::sum, k.load(from, std::vector<Coord>{k.dim(0), k.dim(1)})));
  const Kernel rows = k.finish("rows");
  std::vector<float> a(600), b(20);
  const std::vector<Binding> bindings{{a.data(), false}, {b.data(), false}};
  EXPECT_EQ(make_window_step(rows, bindings, {}), nullptr);
}

}  // namespace
}  // namespace npusim::cpu::window
