// Draws, which are one instruction for each pair of words: of every form of counter and key, side by side in one
// kernel, against the interpreter. And integer quotients and remainders.
#include "kernel/draw.h"

#include <functional>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

constexpr int64_t billions = int64_t{1} << 40;

// A kernel of `meaning`, which is given the builder, seed, call and element, over rows and columns.
Kernel drawing(Shape space, const std::function<Ex(KernelBuilder&, Ex, Ex, Ex)>& meaning, DType dtype) {
  KernelBuilder b(space);
  const int state = b.input({DType::i64, {generator_size}});
  const Coord seed[] = {Coord(int64_t{0})}, calls[] = {Coord(int64_t{1})};
  const Ex element = b.value(b.dim(0) * space[1] + b.dim(1));
  const Ex x = meaning(b, b.load(state, seed), b.load(state, calls), element);
  b.store(b.output({dtype, space}), x);
  return b.finish("draw");
}

void check_draws(const std::function<Ex(KernelBuilder&, Ex, Ex, Ex)>& meaning, DType dtype = DType::f32) {
  Check check;
  check.least = -billions, check.most = billions;
  for (const Shape& space : {Shape{1, 1}, Shape{7, 33}, Shape{3, 2100}, Shape{150, 16}})
    check_kernel_runs(drawing(space, meaning, dtype), check);
}

TEST(Draws, EveryWord) {
  for (int word = 0; word < 4; ++word)
    check_draws(
        [&](KernelBuilder& b, Ex seed, Ex call, Ex element) { return Draw(b, seed, call, element, 5000).word(word); },
        DType::i64);
}

TEST(Draws, Distributions) {
  const auto draw = [](KernelBuilder& b, Ex seed, Ex call, Ex element) { return Draw(b, seed, call, element, 5000); };
  check_draws([&](KernelBuilder& b, Ex s, Ex c, Ex e) { return draw(b, s, c, e).uniform(Scalar::f32); });
  check_draws([&](KernelBuilder& b, Ex s, Ex c, Ex e) { return draw(b, s, c, e).normal(Scalar::f32); });
  check_draws([&](KernelBuilder& b, Ex s, Ex c, Ex e) { return draw(b, s, c, e).normal(Scalar::f64); }, DType::f64);
  check_draws([&](KernelBuilder& b, Ex s, Ex c, Ex e) { return draw(b, s, c, e).below(100); }, DType::i64);
  check_draws([&](KernelBuilder& b, Ex s, Ex c, Ex e) { return draw(b, s, c, e).below(billions); }, DType::i64);
  check_draws([&](KernelBuilder& b, Ex s, Ex c, Ex e) { return draw(b, s, c, e).chance(0.3); }, DType::boolean);
}

TEST(Draws, SeveralInOneKernel) {
  check_draws([](KernelBuilder& b, Ex seed, Ex call, Ex element) {
    const Draw first(b, seed, call, element, 5000), second(b, seed, call + 1, element, 5000);
    const Draw elsewhere(b, seed, call, element * 3, 15000);
    return first.uniform(Scalar::f32) + second.normal(Scalar::f32) + elsewhere.uniform(Scalar::f32) +
           b.cast(first.word(3), Scalar::f32);
  });
}

TEST(Draws, OfComputedSeedsAndCalls) {
  check_draws([](KernelBuilder& b, Ex seed, Ex call,
                 Ex element) { return Draw(b, seed + element, call - b.index(0), element, billions).word(0); },
              DType::i64);
  // Of a word that is drawn, another.
  check_draws(
      [](KernelBuilder& b, Ex seed, Ex call, Ex element) {
        const Ex word = Draw(b, seed, call, element, 5000).word(1);
        return Draw(b, word, call, element, 5000).word(2);
      },
      DType::i64);
}

TEST(Draws, AlongARow) {
  KernelBuilder b({40, 70}, 1);
  const int state = b.input({DType::i64, {generator_size}});
  const Coord seed[] = {Coord(int64_t{0})}, calls[] = {Coord(int64_t{1})};
  const Draw draw(b, b.load(state, seed), b.load(state, calls), b.value(b.dim(0) * 70 + b.dim(1)), 2800);
  const Ex x = draw.exponential(Scalar::f32), most = b.reduce(Reduction::max, x);
  b.store(b.output({DType::f32, {40, 70}}), x / most);
  Check check;
  check.least = -billions, check.most = billions;
  check_kernel_runs(b.finish("rows"), check);
}

TEST(Quotients, OfSmallAndLargeIntegers) {
  const auto form = [](ExprOp op, bool fixed, int64_t divisor) {
    KernelBuilder b({5, 77});
    const Ex x = b.load_broadcast(b.input({DType::i64, {5, 77}}));
    const Ex y = b.load_broadcast(b.input({DType::i64, {5, 77}}));
    const Ex odd = bit_or(y, b.integer(1));  // never zero
    b.store(b.output({DType::i64, {5, 77}}), b.binary(op, x, fixed ? b.integer(divisor) : odd));
    return b.finish("quotient");
  };
  for (const ExprOp op : {ExprOp::idiv, ExprOp::irem})
    for (const int64_t reach : {int64_t{10}, int64_t{1} << 33, int64_t{1} << 50, int64_t{1} << 52, INT64_MAX}) {
      Check check;
      check.least = -reach, check.most = reach;
      for (unsigned seed = 0; seed < 8; ++seed) {
        check.seed = seed;
        check_kernel_runs(form(op, false, 0), check);
      }
      for (const int64_t divisor : {int64_t{1}, int64_t{-1}, int64_t{3}, int64_t{-7}, int64_t{1000003}, reach - 1})
        check_kernel_runs(form(op, true, divisor), check);
    }
}

// Dividends just below a multiple, where the quotient as a double is rounded up.
TEST(Quotients, BesideMultiples) {
  KernelBuilder b({3, 64});
  const Ex multiple = b.load_broadcast(b.input({DType::i64, {3, 64}}));
  const Ex divisor = b.load_broadcast(b.input({DType::i64, {3, 64}})) + int64_t{100};
  const Ex x = multiple * divisor - 1;
  b.store(b.output({DType::i64, {3, 64}}), idiv(x, divisor));
  b.store(b.output({DType::i64, {3, 64}}), irem(0 - x, divisor));
  Check check;
  check.least = 1, check.most = int64_t{1} << 25;
  check_kernel_runs(b.finish("below"), check);
}

}  // namespace
}  // namespace npusim::cpu::loops
