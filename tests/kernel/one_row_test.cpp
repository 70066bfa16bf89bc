// One row of a kernel's result is what the whole kernel gives there, from one row of the operands that have rows.
#include "kernel/fuse/one_row.h"

#include <gtest/gtest.h>

#include "base/tensor.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"

namespace npusim {
namespace {

constexpr int index_value = 100;

BoundKernel bind(Kernel kernel) {
  BoundKernel bound{std::move(kernel), {}};
  for (size_t i = 0; i < bound.kernel.args.size(); ++i) bound.values.push_back(static_cast<int>(i));
  return bound;
}

// Row `row` of [outer, extent, stride].
std::vector<double> row_of(const std::vector<double>& all, const Rows& rows, int64_t row) {
  std::vector<double> found;
  for (size_t i = 0; i < all.size(); ++i)
    if (static_cast<int64_t>(i) / rows.stride % rows.extent == row) found.push_back(all[i]);
  return found;
}

// Arguments of every dtype as doubles, by value.
std::vector<double> run(const BoundKernel& bound, const std::map<int, std::vector<double>>& given) {
  std::vector<HostTensor> memory;
  std::vector<void*> args;
  for (size_t i = 0; i < bound.values.size(); ++i) {
    const KernelArg& arg = bound.kernel.args[i];
    memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
    if (arg.written) continue;
    const std::vector<double>& values = given.at(bound.values[i]);
    EXPECT_EQ(static_cast<int64_t>(values.size()), arg.elements);
    for (int64_t e = 0; e < arg.elements; ++e)
      store_double(memory.back().data.data(), arg.dtype, e, values[static_cast<size_t>(e)]);
  }
  for (HostTensor& tensor : memory) args.push_back(tensor.data.data());
  evaluate(bound.kernel, args);
  std::vector<double> result;
  for (int64_t e = 0; e < bound.kernel.args.back().elements; ++e)
    result.push_back(load_double(memory.back().data.data(), bound.kernel.args.back().dtype, e));
  return result;
}

// `taken`: which arguments are read in one row only.
void expect_rows(Kernel kernel, const Rows& rows, const std::vector<int>& taken) {
  const BoundKernel bound = bind(std::move(kernel));
  const int result = static_cast<int>(bound.values.size()) - 1;
  const auto row = one_row(bound, result, rows, {.value = index_value});
  ASSERT_TRUE(row) << to_text(bound.kernel);
  EXPECT_EQ(check_kernel(row->kernel.kernel), std::vector<std::string>{}) << to_text(row->kernel.kernel);
  std::vector<int> found;
  for (const auto& [value, of] : row->rows) found.push_back(value);
  EXPECT_EQ(found, taken) << to_text(row->kernel.kernel);
  std::map<int, std::vector<double>> given;
  for (size_t i = 0; i + 1 < bound.values.size(); ++i)
    for (int64_t e = 0; e < bound.kernel.args[i].elements; ++e)
      given[static_cast<int>(i)].push_back(static_cast<double>((e * 7 + static_cast<int64_t>(i) * 3) % 11) - 4);
  const std::vector<double> all = run(bound, given);
  for (int64_t i = 0; i < rows.extent; ++i) {
    const auto known = one_row(bound, result, rows, {.known = i});
    ASSERT_TRUE(known);
    EXPECT_EQ(check_kernel(known->kernel.kernel), std::vector<std::string>{}) << to_text(known->kernel.kernel);
    std::map<int, std::vector<double>> one = given;
    one[index_value] = {static_cast<double>(i)};
    for (const auto& [value, of] : row->rows) one[value] = row_of(given[value], of, i);
    EXPECT_EQ(run(row->kernel, one), row_of(all, rows, i)) << i << "\n" << to_text(row->kernel.kernel);
    EXPECT_EQ(run(known->kernel, one), row_of(all, rows, i)) << i << "\n" << to_text(known->kernel.kernel);
  }
}

void expect_none(Kernel kernel, const Rows& rows) {
  const BoundKernel bound = bind(std::move(kernel));
  EXPECT_FALSE(one_row(bound, static_cast<int>(bound.values.size()) - 1, rows, {.value = index_value}))
      << to_text(bound.kernel);
}

const TensorType tokens{DType::f32, {1, 5, 6}};  // 5 rows of 6

// A weight along the row is read whole, a number for each row in one element.
TEST(OneRow, Pointwise) {
  KernelBuilder k({5, 6});
  const Coord at[] = {Coord(int64_t{0}), k.dim(0), k.dim(1)}, column[] = {k.dim(1)}, row[] = {k.dim(0)};
  const Ex x = k.load(k.input(tokens), at), w = k.load(k.input({DType::f32, {6}}), column),
           s = k.load(k.input({DType::bf16, {5}}), row);
  k.store(k.output(tokens), at, x * w + s + k.index(0) * 2);
  expect_rows(k.finish("pointwise"), {6, 5}, {0, 2});
}

// In one dimension, or with rows that two dimensions share, the dimensions are split first.
TEST(OneRow, FlatSpaces) {
  KernelBuilder flat({60});
  const Ex x = flat.load_flat(flat.input({DType::f32, {60}}));
  flat.store_flat(flat.output({DType::f32, {60}}), x + flat.index(0));
  const Kernel kernel = flat.finish("flat");
  expect_rows(kernel, {6, 5}, {0});
  expect_rows(kernel, {1, 5}, {0});
  expect_rows(kernel, {12, 5}, {0});
  expect_rows(kernel, {1, 60}, {0});
  expect_none(kernel, {7, 5});
  expect_none(kernel, {0, 5});
  expect_none(kernel, {60, 1});
}

TEST(OneRow, Transposes) {
  KernelBuilder k({3, 5, 2});  // [5, 3, 2] to [3, 5, 2]
  const Coord from[] = {k.dim(1), k.dim(0), k.dim(2)};
  const Ex x = k.load(k.input({DType::f32, {5, 3, 2}}), from);
  k.store(k.output({DType::f32, {3, 5, 2}}), x);
  const Kernel kernel = k.finish("transpose");
  expect_rows(kernel, {2, 5}, {0});
  expect_rows(kernel, {10, 3}, {0});
}

// Halves of the row put together: guards along it.
TEST(OneRow, Guards) {
  KernelBuilder k({5, 6});
  const int a = k.input(tokens), b = k.input(tokens);
  const Coord left[] = {Coord(int64_t{0}), k.dim(0), k.dim(1) + 3},
              right[] = {Coord(int64_t{0}), k.dim(0), k.dim(1) + -3}, at[] = {Coord(int64_t{0}), k.dim(0), k.dim(1)};
  const Ex first = k.load(a, left), second = k.load(b, right);
  k.store(k.output(tokens), at, select(k.index(1) < 3, -first, second));
  expect_rows(k.finish("cat"), {6, 5}, {0, 1});
}

TEST(OneRow, Reductions) {
  KernelBuilder k({5, 6}, 1);
  const Coord at[] = {Coord(int64_t{0}), k.dim(0), k.dim(1)}, sum_at[] = {k.dim(0)};
  const Ex x = k.load(k.input(tokens), at);
  const Ex y = x - k.reduce(Reduction::max, x);
  k.store(k.output(tokens), at, y);
  const Kernel kernel = k.finish("norm");
  expect_rows(kernel, {6, 5}, {0});
  expect_none(kernel, {1, 6});  // along the row that is reduced
  KernelBuilder sums({5, 6}, 1);
  const Coord from[] = {Coord(int64_t{0}), sums.dim(0), sums.dim(1)};
  const Ex sum = sums.reduce(Reduction::sum, sums.load(sums.input(tokens), from));
  sums.store(sums.output({DType::f32, {5}}), std::span(sum_at), sum);
  expect_rows(sums.finish("sum"), {1, 5}, {0});
}

// A weight's operand has no rows; a product of two batches has them in both.
TEST(OneRow, Products) {
  KernelBuilder k({5, 4});
  const int a = k.input(tokens), b = k.input({DType::f32, {4, 6}}), c = k.input({DType::f32, {5, 4}});
  const Coord a_at[] = {Coord(int64_t{0}), k.dim(0), k.dim(2)}, b_at[] = {k.dim(1), k.dim(2)};
  const Ex product = k.contract(ContractionKind::matmul, {6}, a, a_at, b, b_at);
  const Coord at[] = {k.dim(0), k.dim(1)};
  k.store(k.output({DType::f32, {5, 4}}), product + k.load(c, at));
  const Kernel linear = k.finish("linear");
  expect_rows(linear, {4, 5}, {0, 2});
  expect_rows(linear, {1, 4}, {1, 2});
  expect_none(linear, {2, 5});  // of two columns and a row
  KernelBuilder batch({5, 2, 3});
  const int q = batch.input({DType::f32, {5, 2, 4}}), r = batch.input({DType::f32, {5, 3, 4}});
  const Coord q_at[] = {batch.dim(0), batch.dim(1), batch.dim(3)}, r_at[] = {batch.dim(0), batch.dim(2), batch.dim(3)};
  const Ex scores = batch.contract(ContractionKind::matmul, {4}, q, q_at, r, r_at);
  batch.store(batch.output({DType::f32, {5, 2, 3}}), scores);
  expect_rows(batch.finish("batch"), {6, 5}, {0, 1});
}

// Rows chosen by a number stay chosen by it.
TEST(OneRow, Gathers) {
  KernelBuilder k({5, 6});
  const Coord row[] = {k.dim(0)};
  const Ex id = k.load(k.input({DType::i64, {5}}), row);
  const Coord at[] = {Coord(abs(id)), k.dim(1)};
  const Ex x = k.load(k.input({DType::f32, {20, 6}}), at);
  k.store(k.output({DType::f32, {5, 6}}), x);
  expect_rows(k.finish("embedding"), {6, 5}, {0});
}

TEST(OneRow, WhatHasNoRowsIsLeft) {
  const auto shifted = [](int64_t offset, int64_t sign) {
    KernelBuilder k({5, 6});
    const Coord from[] = {k.dim(0) * sign + offset, k.dim(1)};
    const Ex x = k.load(k.input({DType::f32, {5, 6}}), from);
    k.store(k.output({DType::f32, {5, 6}}), x);
    return k.finish("shift");
  };
  expect_rows(shifted(0, 1), {6, 5}, {0});
  expect_none(shifted(1, 1), {6, 5});   // the row behind
  expect_none(shifted(4, -1), {6, 5});  // from the last
  KernelBuilder both({5, 5});
  const int x = both.input({DType::f32, {5}});
  const Coord row[] = {both.dim(0)}, column[] = {both.dim(1)};
  both.store(both.output({DType::f32, {5, 5}}), both.load(x, row) * both.load(x, column));
  expect_none(both.finish("outer"), {5, 5});
  KernelBuilder update({5, 6});
  const int old = update.input({DType::f32, {5, 6}});
  const Coord at[] = {update.dim(0), update.dim(1)};
  update.store(update.output({DType::f32, {5, 6}}, old), update.load(old, at) + 1);
  expect_none(update.finish("update"), {6, 5});
  KernelBuilder two({5, 6});
  const Coord same[] = {two.dim(0), two.dim(1)};
  const Ex value = two.load(two.input({DType::f32, {5, 6}}), same);
  two.store(two.output({DType::f32, {5, 6}}), value);
  two.store(two.output({DType::f32, {5, 6}}), value);
  expect_none(two.finish("two"), {6, 5});
}

}  // namespace
}  // namespace npusim
