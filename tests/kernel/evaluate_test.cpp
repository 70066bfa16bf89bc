// The interpreter's corners: rows of no elements, values that are the same along a row.
#include "kernel/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cpu/loops/check.h"
#include "base/error.h"
#include "kernel/builder.h"

namespace npusim {
namespace {

using testing::ElementsAre;

std::vector<float> evaluated(const Kernel& k, std::vector<std::vector<float>> floats) {
  std::vector<void*> args;
  for (auto& arg : floats) args.push_back(arg.data());
  EXPECT_THAT(check_kernel(k), ElementsAre());
  evaluate(k, args);
  return floats.back();
}

// A sum over nothing, plus what does not vary along the row: of a load, of an index, of a load at a computed place.
Kernel sum_of_nothing() {
  KernelBuilder b({3, 0}, 1);
  const int x = b.input({DType::f32, {3, 0}}), bias = b.input({DType::f32, {3}}), y = b.input({DType::f32, {3}});
  const int out = b.output({DType::f32, {3}});
  const Coord outer[] = {b.dim(0)};
  const Coord turned[] = {b.integer(2) - b.index(0)};
  const Ex sum = b.reduce(Reduction::sum, b.load_broadcast(x)) + b.load(bias, outer) * 2.0;
  b.store(out, sum + b.load(y, turned) + b.cast(b.index(0), Scalar::f32));
  return b.finish("sum_of_nothing");
}

TEST(Evaluate, EmptyRowsReadWhatIsTheSameAlongThem) {
  EXPECT_THAT(evaluated(sum_of_nothing(), {{}, {1, 2, 3}, {10, 20, 30}, {0, 0, 0}}), ElementsAre(32, 25, 18));
  cpu::check_kernel_runs(sum_of_nothing());
}

// Reductions of nothing are their identities, one within another too.
TEST(Evaluate, EmptyRowsHaveIdentities) {
  KernelBuilder b({2, 0}, 1);
  const int x = b.input({DType::f32, {2, 0}});
  const int out = b.output({DType::f32, {2}});
  const Ex top = b.reduce(Reduction::max, b.load_broadcast(x));
  const Ex sum = b.reduce(Reduction::sum, exp(b.load_broadcast(x) - top));
  const Ex product = b.reduce(Reduction::product, b.load_broadcast(x));
  b.store(out, select(top < 0, sum + product, 7.0));
  const Kernel k = b.finish("identities");
  EXPECT_THAT(evaluated(k, {{}, {9, 9}}), ElementsAre(1, 1));
  cpu::check_kernel_runs(k);
}

// What varies along an empty row has no value: nothing is divided by it, no index of it is looked at.
TEST(Evaluate, EmptyRowsTrapNowhere) {
  KernelBuilder b({1, 0}, 1);
  const int x = b.input({DType::i64, {1, 0}}), table = b.input({DType::i64, {4}}), out = b.output({DType::i64, {1}});
  const Ex divisor = b.load_broadcast(x);
  const Coord at[] = {divisor - 1};
  b.store(out, b.reduce(Reduction::sum, idiv(b.integer(6), divisor)) + b.reduce(Reduction::sum, b.load(table, at)));
  const Kernel k = b.finish("no_trap");
  int64_t table_data[4] = {}, result = 5;
  void* args[] = {nullptr, table_data, &result};
  EXPECT_NO_THROW(evaluate(k, args));
  EXPECT_EQ(result, 0);
  cpu::check_kernel_runs(k);
}

}  // namespace
}  // namespace npusim
