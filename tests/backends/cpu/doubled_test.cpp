// Expressions that are used twice at every step, so that a walk that does not remember where it was never ends: what
// asks of kernels by their form is done with them at once, and what is computed is right.
#include <array>
#include <cmath>
#include <numeric>

#include "backends/cpu/check_step.h"
#include "backends/cpu/loops/check.h"
#include "backends/cpu/window/resample.h"
#include "backends/cpu/window/window.h"
#include "kernel/contractions.h"
#include "kernel/facts/epilogue_chain.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/masked_score.h"
#include "kernel/facts/score_form.h"
#include "kernel/fuse/simplify.h"
#include "kernel/fuse/unfuse.h"
#include "passes/recognize.h"
#include "print/print.h"

namespace npusim::cpu {
namespace {

constexpr int steps = 60;
constexpr ExprOp binary_ops[] = {ExprOp::add, ExprOp::sub,     ExprOp::mul,    ExprOp::min,     ExprOp::max,
                                 ExprOp::div, ExprOp::bit_and, ExprOp::bit_or, ExprOp::bit_xor, ExprOp::eq,
                                 ExprOp::lt,  ExprOp::le,      ExprOp::pow};

// Of `a` and `b`: each step is of the last value twice, or of the last two.
Ex doubled(KernelBuilder& k, ExprOp op, Ex a, Ex b, bool of_two) {
  for (int n = 0; n < steps; ++n) {
    const Ex next = k.binary(op, of_two ? a : b, b);
    a = b, b = next;
    if (b.type() != a.type()) break;  // comparisons of numbers end there
  }
  return b;
}

// What the end of such a chain is for.
enum class Use : uint8_t { value, condition, compared, chosen, index, row, extreme };
constexpr int use_count = 7;

Kernel doubling(ExprOp op, Scalar type, bool of_two, Use use) {
  KernelBuilder k({4, 5}, 1);
  const int in = k.input({DType::f32, {4, 5}});
  const Ex x = k.load_broadcast(in), row = k.index(0), column = k.index(1);
  Ex first = row, second = column;
  if (type == Scalar::boolean) first = row < 3, second = 1 < column;
  if (type == Scalar::f32) first = x, second = k.cast(column, Scalar::f32);
  if (type == Scalar::f64) first = k.cast(x, Scalar::f64), second = k.cast(column, Scalar::f64);
  const Ex end = doubled(k, op, first, second, of_two);
  const auto all = [&](Ex value) { k.store(k.output({DType::f32, {4, 5}}), k.cast(value, Scalar::f32)); };
  switch (use) {
    case Use::value:
      all(end);
      break;
    case Use::condition:
      all(k.select(k.cast(end, Scalar::boolean), x, -x));
      break;
    case Use::compared:
      all(k.select(k.cast(end, Scalar::i64) < row, x, x * 2));
      break;
    case Use::chosen:
      all(k.select(x < 0, k.cast(end, Scalar::f32), 0.5 * x * (1 + tanh(k.cast(end, Scalar::f32)))));
      break;
    case Use::index: {
      const Coord at[] = {k.dim(0), max(min(k.cast(end, Scalar::i64), 4), 0)};
      all(k.load(in, at));
      break;
    }
    case Use::row:
      all(x - k.reduce(Reduction::sum, k.cast(end, Scalar::f32)));
      break;
    case Use::extreme: {
      const Ex top = k.reduce(Reduction::max, x), index_of = k.cast(end, Scalar::i64);
      all(k.reduce(Reduction::min, k.select(x == top, index_of, k.integer(int64_t{1} << 40))));
      break;
    }
  }
  return k.finish("doubling");
}

void ask_all(const Kernel& kernel) {
  Kernel k = kernel;
  EXPECT_TRUE(check_kernel(k).empty()) << to_text(k);
  if (k.contraction) {
    (void)epilogue_chain(k);
    if (k.contraction->kind == ContractionKind::attention) (void)score_form(k), (void)masked_score(k);
    (void)unfuse(k);
  } else if (const Schedule schedule = choose_schedule(k, cuda_dialect); !cannot_print(k, cuda_dialect, schedule)) {
    (void)print_kernel(k, cuda_dialect);
  }
  (void)recognize(k);
  BoundKernel bound{k, std::vector<int>(k.args.size())};
  std::iota(bound.values.begin(), bound.values.end(), 0);
  simplify(bound);
}

TEST(Doubled, LoopsOfEveryOperation) {
  for (const ExprOp op : binary_ops)
    for (const Scalar type : {Scalar::boolean, Scalar::i64, Scalar::f32, Scalar::f64})
      for (int use = 0; use < use_count && has_meaning(op, type); ++use)
        for (const bool of_two : {false, true}) {
          if (op == ExprOp::pow && type < Scalar::f32) continue;
          const Kernel k = doubling(op, type, of_two, static_cast<Use>(use));
          SCOPED_TRACE(to_text(k));
          ask_all(k);
          const Check check{.special = {0, 1, -1}};
          Memory expected = random_arguments(k, check), found = expected;
          evaluate(k, pointers(k, expected));
          EXPECT_TRUE(loops::Loops(k, 1).run(pointers(k, found).data()));
          if (op != ExprOp::sub && op != ExprOp::div && op != ExprOp::mul) compare(k, expected, found, check);
          if (HasFailure()) return;
        }
}

TEST(Doubled, EpiloguesAndScores) {
  for (const ExprOp op : {ExprOp::add, ExprOp::mul, ExprOp::min, ExprOp::max, ExprOp::sub})
    for (const bool of_two : {false, true}) {
      const auto chain = [&](KernelBuilder& k, Ex a, Ex b) { return doubled(k, op, a, b, of_two); };
      ask_all(linear(4, 8, 16, DType::f32, DType::f32, DType::f32,
                     [&](KernelBuilder& k, Ex leaf, Ex, Ex) { return 0.5 * leaf * (1 + tanh(chain(k, leaf, leaf))); }));
      ask_all(linear(4, 8, 16, DType::f32, DType::f32, DType::f32,
                     [&](KernelBuilder& k, Ex leaf, Ex bias, Ex) { return chain(k, leaf, leaf + bias); }));
      const int key = 4, query = 3;
      ask_all(attention({}, DType::f32, [&](KernelBuilder& k, Ex leaf, Ex) {
        return k.select(k.index(key) < chain(k, k.index(query), k.index(0)), leaf, k.number(-1e9));
      }));
      ask_all(attention({}, DType::f32, [&](KernelBuilder& k, Ex leaf, Ex mask) { return chain(k, mask, leaf); }));
      ask_all(attention({}, DType::boolean, [&](KernelBuilder& k, Ex leaf, Ex mask) {
        return k.select(doubled(k, ExprOp::bit_and, mask, k.index(key) <= k.index(query), of_two), leaf,
                        k.number(-INFINITY));
      }));
    }
}

// Pools whose conditions, addresses and indices are such chains, and sums of very many terms.
TEST(Doubled, WindowsAndResampling) {
  const auto ask = [](const Kernel& kernel) {
    const Check check{.least = 0, .most = 5, .special = {}};
    step_is_as_interpreted(kernel, check, 1, window::make_window_step);
    step_is_as_interpreted(kernel, check, 1, window::make_resample_step);
    ask_all(kernel);
  };
  for (const bool of_two : {false, true})
    for (int chained = 0; chained < 4; ++chained) {
      KernelBuilder k({4, 6, 3}, 1);
      const int in = k.input({DType::f32, {4, 8}});
      const Ex sum = k.index(1) + k.index(2);
      const Ex most = chained == 0 ? doubled(k, ExprOp::max, sum, k.index(2), of_two) : sum;
      Ex inside = 0 <= sum && most <= 7;
      if (chained == 1) inside = doubled(k, ExprOp::bit_and, inside, k.index(2) < 3, of_two);
      const Ex x = k.select(inside, k.load(in, std::vector<Coord>{k.dim(0), Coord(max(min(most, 7), 0))}),
                            k.number(-std::numeric_limits<double>::infinity()));
      const Ex top = k.reduce(Reduction::max, x);
      const Ex at = chained == 2 ? doubled(k, ExprOp::add, sum, k.index(2), of_two) : sum;
      const Ex nowhere = k.integer(std::numeric_limits<int64_t>::max());
      const std::vector<Coord> to{k.dim(0), k.dim(1)};
      if (chained < 3)
        k.store(k.output({DType::i64, {4, 6}}), to,
                k.reduce(Reduction::min, k.select(inside && x == top, at, nowhere)));
      k.store(k.output({DType::f32, {4, 6}}), to, top);
      ask(k.finish("pool"));
    }
  for (const int terms : {3, 4, 5, 4000}) {
    KernelBuilder k({2, 20});
    const int in = k.input({DType::f32, {2, 20}});
    const Ex x = k.load(in, std::vector<Coord>{k.dim(0), Coord(min(k.index(1) + 1, 19))});
    Ex sum = x * k.cast(k.index(1), Scalar::f32);
    for (int n = 1; n < terms; ++n) sum = sum + x * (k.cast(k.index(1), Scalar::f32) + 0.001 * n);
    k.store(k.output({DType::f32, {2, 20}}), std::vector<Coord>{k.dim(0), k.dim(1)}, sum);
    const Check check{.tolerance = 1e-2, .special = {}};
    step_is_as_interpreted(k.finish("sum"), check, 1, window::make_resample_step);
  }
}

}  // namespace
}  // namespace npusim::cpu
