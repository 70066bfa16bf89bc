// Sums of integers at the indices of a table, by the weights of another, against the scalar interpreter: extents,
// types, order in memory, what is made of elements and of sums, sums that wrap, and those that are left to loops.
#include "backends/cpu/window/weigh.h"

#include "backends/cpu/check_step.h"
#include "npusim/error.h"

namespace npusim::cpu::window {
namespace {

struct Form {
  int64_t channels = 2, across = 3, in = 13, out = 8, taps = 3;
  bool last = false;  // the dimension across lies along memory
  DType dtype = DType::u8;
  bool scaled = false;   // elements are, and bounded
  bool large = false;    // weights, of which sums wrap
  bool more = false;     // something is made of the sums, and stored in another order
  bool wide = false;     // all 64 bits of the sums are seen
  bool crossed = false;  // indices are of two dimensions
};

Kernel kernel_of(const Form& f) {
  KernelBuilder k({f.channels, f.across, f.out, f.taps}, 1);
  const int indices = k.input({DType::i64, {f.out, f.taps}}), weights = k.input({DType::i32, {f.out, f.taps}});
  const int image = k.input({f.dtype, f.last ? Shape{f.channels, f.in, f.across} : Shape{f.channels, f.across, f.in}});
  const auto round = [&](Ex x) { return k.round_to(x, DType::i32); };
  const std::vector<Coord> table{k.dim(2), k.dim(3)};
  Ex index = k.load(indices, table);
  index = select(index < 0, index + f.in, index);
  if (f.crossed) index = min(index + k.index(0), f.in - 1);
  const std::vector<Coord> at = f.last ? std::vector<Coord>{k.dim(0), Coord(index), k.dim(1)}
                                       : std::vector<Coord>{k.dim(0), k.dim(1), Coord(index)};
  Ex x = round(k.load(image, at));
  if (f.scaled) x = min(max(k.binary(ExprOp::shr, round(x + 7), k.integer(1)), 5), 8);
  Ex weight = k.load(weights, table) - 4;
  if (f.large) weight = weight * int64_t{123456789};
  Ex sum = k.reduce(Reduction::sum, round(weight * x));
  if (f.wide) sum = k.binary(ExprOp::idiv, sum, k.integer(3));
  if (!f.more) {
    const std::vector<Coord> to{k.dim(0), k.dim(1), k.dim(2)};
    k.store(k.output({f.wide ? DType::i64 : DType::i32, {f.channels, f.across, f.out}}), to, sum);
  } else {
    const std::vector<Coord> to{k.dim(0), k.dim(2), k.dim(1)};
    sum = min(max(k.binary(ExprOp::shr, round(round(sum) + 100), k.integer(2)), 0), 255);
    k.store(k.output({DType::u8, {f.channels, f.out, f.across}}), to, sum);
  }
  return k.finish("weighed");
}

bool run_as_interpreted(const Form& f, unsigned seed, int threads) {
  Check check;
  check.seed = seed;
  check.least = 0, check.most = f.in - 1;
  return step_is_as_interpreted(kernel_of(f), check, threads, make_weighing_step);
}

TEST(Weighing, IsThatOfTheInterpreter) {
  on_every_instruction_set([] {
    std::mt19937 random(7);
    const auto one = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const auto may = [&] { return one(0, 1) == 0; };
    for (unsigned n = 0; n < 80; ++n) {
      Form f{.channels = one(1, 3), .across = one(1, 40), .in = one(5, 30), .out = one(2, 40), .taps = one(2, 9)};
      f.last = may(), f.dtype = may() ? DType::u8 : DType::i32;
      f.scaled = may(), f.large = may(), f.more = may();
      EXPECT_TRUE(run_as_interpreted(f, n, static_cast<int>(one(1, 3)))) << to_text(kernel_of(f));
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(run_as_interpreted({.channels = 3, .across = 100, .in = 90, .out = 60, .taps = 5}, 1, 3));
    EXPECT_TRUE(run_as_interpreted({.channels = 3, .across = 100, .in = 90, .out = 60, .taps = 5, .last = true}, 1, 3));
  });
}

TEST(Weighing, WhatIsNoSuchSumIsLeftToLoops) {
  EXPECT_FALSE(run_as_interpreted({.wide = true}, 1, 1));
  EXPECT_FALSE(run_as_interpreted({.crossed = true}, 1, 1));
  EXPECT_FALSE(run_as_interpreted({.dtype = DType::i64}, 1, 1));
}

TEST(Weighing, APlaceOutsideIsRefused) {
  for (const bool last : {false, true}) {
    const Kernel k = kernel_of({.across = 20, .last = last});
    Check check;
    check.least = 0, check.most = 13;
    Memory arguments = random_arguments(k, check);
    const int64_t outside = 13;
    std::memcpy(arguments[0].data() + 8, &outside, sizeof(outside));
    EXPECT_THROW(run_step(k, arguments, 1, make_weighing_step), Error);
  }
}

}  // namespace
}  // namespace npusim::cpu::window
