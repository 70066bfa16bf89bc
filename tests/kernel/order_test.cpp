// Kernels that order rows: what the interpreter says, what their merges say, and what is no such kernel.
#include "kernel/facts/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/tensor.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"
#include "kernel/facts/compact.h"
#include "kernel/fuse/select_digits.h"
#include "kernel/fuse/unfuse.h"
#include "kernel/order_kernels.h"

namespace npusim::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> entries_of(const HostTensor& t) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < element_count(t.type.shape); ++i) list.push_back(load_int(t.data.data(), t.type.dtype, i));
  return list;
}

std::vector<int64_t> order_of(const std::vector<double>& row, DType dtype, bool descending, int64_t count) {
  OrderCase c;
  c.kernel = order_kernel(dtype, {}, static_cast<int64_t>(row.size()), count, descending);
  HostTensor from = make_tensor({dtype, {static_cast<int64_t>(row.size())}}), to = make_tensor({DType::i64, {count}});
  for (size_t i = 0; i < row.size(); ++i) store_double(from.data.data(), dtype, static_cast<int64_t>(i), row[i]);
  void* args[] = {from.data.data(), to.data.data()};
  evaluate(c.kernel, args);
  return entries_of(to);
}

TEST(Order, IsStableAndPutsNanLast) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(order_of({2, nan, -inf, 2, 0.0, -0.0, nan, inf}, DType::f32, false, 8),
              ElementsAre(2, 4, 5, 0, 3, 7, 1, 6));
  EXPECT_THAT(order_of({2, nan, -inf, 2, 0.0, -0.0, nan, inf}, DType::f32, true, 8),
              ElementsAre(1, 6, 7, 0, 3, 4, 5, 2));
  EXPECT_THAT(order_of({1, 0, 1, 0}, DType::boolean, true, 3), ElementsAre(0, 2, 1));
  EXPECT_THAT(order_of({-128, 127, -1}, DType::i8, false, 2), ElementsAre(0, 2));
}

// The steps of an order are sound kernels that another device can print, and give what the interpreter gives.
void check_steps(const OrderCase& c, const Unfused& unfused) {
  ASSERT_THAT(check_kernel(c.kernel), ElementsAre()) << to_text(c.kernel);
  std::vector<HostTensor> expected = c.memory, found = c.memory;
  void* args[] = {expected[0].data.data(), expected[1].data.data()};
  evaluate(c.kernel, args);
  for (const Unfused::Scratch& s : unfused.scratch) found.push_back(make_tensor({s.dtype, {s.elements}}));
  for (const BoundKernel& step : unfused.steps) {
    ASSERT_THAT(check_kernel(step.kernel), ElementsAre()) << to_text(step.kernel);
    ASSERT_FALSE(has_order(step.kernel));
    std::vector<void*> memory;
    for (int v : step.values) memory.push_back(found[static_cast<size_t>(v)].data.data());
    for (size_t i = 0; i < step.values.size(); ++i) {  // what is updated begins as that which it updates
      const int before = step.kernel.args[i].updates;
      if (before >= 0)
        found[static_cast<size_t>(step.values[i])].data =
            found[static_cast<size_t>(step.values[static_cast<size_t>(before)])].data;
    }
    for (size_t i = 0; i < step.values.size(); ++i) memory[i] = found[static_cast<size_t>(step.values[i])].data.data();
    evaluate(step.kernel, memory);
  }
  ASSERT_EQ(entries_of(expected[1]), entries_of(found[1])) << to_text(c.kernel);
}

TEST(Order, MergesGiveTheSame) {
  Draws d(20);
  for (int n = 0; n < 300; ++n) {
    const OrderCase c = draw_order(d, n % 10 == 0 ? 1000 : 70);
    const Unfused merges = unfuse(c.kernel);
    ASSERT_NO_FATAL_FAILURE(check_steps(c, merges));
    const int64_t length = c.kernel.space.back();
    EXPECT_LE(merges.steps.size(), length < 3 ? 1u : std::bit_width(static_cast<uint64_t>(length - 1)));
  }
}

TEST(Order, DigitsGiveTheSame) {
  Draws d(21);
  for (int n = 0; n < 300; ++n) {
    const OrderCase c = draw_order(d, n % 10 == 0 ? 1000 : 70, 1);
    ASSERT_NO_FATAL_FAILURE(check_steps(c, select_digits(c.kernel)));
  }
}

// Every magnitude, and its neighbours: what bits they have is found by arithmetic.
TEST(Order, DigitsOfEveryMagnitude) {
  Draws d(22);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    std::vector<double> values{0, INFINITY, NAN};
    for (int exponent = -1080; exponent <= 1023; ++exponent)
      for (const double by : {1.0, 1 + std::ldexp(1, -10), 1.5, 2 - std::ldexp(1, -23), 2 - std::ldexp(1, -52)})
        values.push_back(std::ldexp(by, exponent));
    std::shuffle(values.begin(), values.end(), d.random);
    const auto length = static_cast<int64_t>(values.size());
    for (const int64_t first : {0, 1, 1000, 5000, 10000}) {
      OrderCase c{order_kernel(dtype, {}, length, 1, d.chance(0.5), first), {}};
      for (const KernelArg& arg : c.kernel.args) c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
      for (int64_t i = 0; i < length; ++i)
        store_double(c.memory[0].data.data(), dtype, i, (d.chance(0.5) ? 1 : -1) * values[static_cast<size_t>(i)]);
      ASSERT_NO_FATAL_FAILURE(check_steps(c, select_digits(c.kernel)));
    }
  }
}

TEST(Order, LongRowsOfOnePlaceAreFoundByDigits) {
  EXPECT_EQ(unfuse(order_kernel(DType::f32, {2}, 1 << 16, 1, false, 77)).steps.size(), 2u + 2 * (4 + 2));
  EXPECT_EQ(unfuse(order_kernel(DType::f32, {2}, 1 << 16, 2, false, 77)).steps.size(), 16u);
}

TEST(Order, HasOneForm) {
  const Kernel sound = order_kernel(DType::f32, {3}, 8, 4, false);
  ASSERT_THAT(check_kernel(sound), ElementsAre());
  const auto problem = [&](auto&& change) {
    Kernel k = sound;
    change(k);
    const auto problems = check_kernel(k);
    return problems.empty() ? std::string() : problems[0];
  };
  EXPECT_THAT(problem([](Kernel& k) { k.row_dims = 2; }), HasSubstr("along one dimension"));
  EXPECT_THAT(problem([](Kernel& k) { k.exprs[1].reduction = Reduction::sum; }),
              HasSubstr("the smallest or the largest"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].accumulate = true; }), HasSubstr("stored as it is"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].offset = 1; }), HasSubstr("neighbouring"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].coeffs[0] = 1; }), HasSubstr("neighbouring"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].coeffs.clear(); }), HasSubstr("neighbouring"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.strides.clear(); }), HasSubstr("neighbouring"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].access.guards[0].coeffs.pop_back(); }), HasSubstr("neighbouring"));
  EXPECT_EQ(problem([](Kernel& k) { k.stores[0].access.guards[0].offset = -1; }), "");
  EXPECT_THAT(problem([](Kernel& k) {
                k.accesses[0].guards.push_back({{0, 1}, 0, 4, 0});
              }),
              HasSubstr("without guards"));
  EXPECT_THAT(problem([](Kernel& k) {
                k.exprs.push_back({.op = ExprOp::add, .type = Scalar::i64, .in = {1, 1, -1}});
                k.stores[0].expr = 2;
              }),
              HasSubstr("nothing but load, order and store"));
  EXPECT_THAT(problem([](Kernel& k) { k.exprs[1].type = Scalar::f32; }), HasSubstr("ill-typed"));
  EXPECT_THAT(problem([](Kernel& k) { k.stores[0].reduction = Reduction::max; }), HasSubstr("reduction"));
}

TEST(Order, OfOneElementIsItself) {
  Kernel k = order_kernel(DType::f32, {3}, 1, 1, true);
  drop_unit_dims(k);
  EXPECT_FALSE(has_order(k));
  EXPECT_THAT(check_kernel(k), ElementsAre());
}

// A copy's strides become the order's own; anything else stays a kernel before or behind it.
TEST(Order, TakesCopiesOnly) {
  const BoundKernel order{order_kernel(DType::f32, {3}, 8, 8, false), {1, 2}};
  const auto of_transposed = [](bool negative) {
    KernelBuilder k({3, 8});
    const Coord at[] = {k.dim(1), k.dim(0)};
    const Ex x = k.load(k.input({DType::f32, {8, 3}}), at);
    k.store(k.output({DType::f32, {3, 8}}), negative ? -x : x);
    return BoundKernel{k.finish("producer"), {0, 1}};
  };
  const auto folded = inline_value(order, of_transposed(false), 1, false, {});
  ASSERT_TRUE(folded);
  EXPECT_THAT(check_kernel(folded->kernel), ElementsAre());
  EXPECT_THAT(folded->kernel.accesses[0].strides, ElementsAre(1, 3));
  EXPECT_FALSE(inline_value(order, of_transposed(true), 1, false, {}));
  KernelBuilder reader({3, 8});
  reader.store(reader.output({DType::i64, {3, 8}}), reader.load_broadcast(reader.input({DType::i64, {3, 8}})) + 1);
  EXPECT_FALSE(inline_value({reader.finish("reader"), {2, 3}}, order, 2, false, {}));
}

}  // namespace
}  // namespace npusim::test
