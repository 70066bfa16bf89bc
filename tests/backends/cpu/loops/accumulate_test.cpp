// Stores that combine with what is there: every reduction of every dtype, at rows that repeat, against the
// interpreter and, for a few elements by hand.
#include <fmt/format.h>

#include <limits>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

Kernel combining(DType dtype, DType value, Reduction reduction, int64_t count, int64_t columns, int64_t rows,
                 bool per_column) {
  KernelBuilder b({count, columns});
  const int old = b.input({dtype, {rows, columns}});
  const int index = b.input({DType::i64, {count, per_column ? columns : 1}});
  const Ex x = b.load_broadcast(b.input({value, {count, columns}}));
  const Coord at[] = {b.load_broadcast(index), b.dim(1)};
  b.store(b.output({dtype, {rows, columns}}, old), at, x, reduction);
  return b.finish("combine");
}

TEST(Accumulate, CombinesAsTheInterpreterDoes) {
  Check check;
  check.special = {std::nan(""), -0.0, std::numeric_limits<double>::infinity()};
  for (int dtype = 0; dtype < dtype_count; ++dtype)
    for (int reduction = 0; reduction < 4; ++reduction)
      for (const bool per_column : {false, true}) {
        const auto type = static_cast<DType>(dtype);
        // Integers are cut to the element's type first.
        check.seed = static_cast<unsigned>(dtype * 8 + reduction * 2 + per_column);
        check_kernel_runs(combining(type, type, static_cast<Reduction>(reduction), 90, 5, 6, per_column), check);
      }
}

// Points of a vector, each with an element of its own, as numbers are counted.
TEST(Accumulate, CombinesPointsOfAVector) {
  Check check;
  check.special = {std::nan(""), -0.0, std::numeric_limits<double>::infinity()};
  for (int dtype = 0; dtype < dtype_count; ++dtype)
    for (const DType index : {DType::i64, DType::i32, DType::u8})
      for (const int64_t count : {1, 15, 90, 2500}) {
        const auto type = static_cast<DType>(dtype);
        KernelBuilder b({count});
        const int old = b.input({type, {6}});
        const Coord at[] = {b.load_broadcast(b.input({index, {count}}))};
        const Ex x = b.load_broadcast(b.input({type, {count}}));
        b.store(b.output({type, {6}}, old), at, x, static_cast<Reduction>(count % 4));
        check.seed = static_cast<unsigned>(dtype * 8 + count);
        check_kernel_runs(b.finish("points"), check);
      }
}

// Columns that threads share, and rows that combine at rows of their own.
TEST(Accumulate, SharesWhatDoesNotMeet) {
  for (const DType dtype : {DType::f32, DType::i64, DType::u8})
    for (const int64_t columns : {17, 33, 300})
      for (const bool per_column : {false, true})
        check_kernel_runs(combining(dtype, dtype, Reduction::sum, 500, columns, 6, per_column));
}

// Rows of a table, chosen by one index and combined at another: those of neighbours that meet, and times a number each.
TEST(Accumulate, CombinesRowsFromWhereTheyLie) {
  Check check;
  for (const DType dtype : {DType::f32, DType::f16})
    for (int reduction = 0; reduction < 4; ++reduction)
      for (const int64_t columns : {1, 16, 70, 300})
        for (const int scaled : {0, 1, 2}) {
          KernelBuilder b({90, columns});
          const int old = b.input({DType::f32, {6, columns}}), table = b.input({dtype, {6, columns}});
          const int from = b.input({DType::i64, {90, 1}}), to = b.input({DType::i64, {90, 1}});
          const Coord row[] = {b.load_broadcast(from), b.dim(1)}, at[] = {b.load_broadcast(to), b.dim(1)};
          Ex x = b.load(table, row);
          if (scaled) x = x * b.load_broadcast(b.input({DType::f32, scaled == 1 ? Shape{90, 1} : Shape{1}}));
          b.store(b.output({DType::f32, {6, columns}}, old), at, x, static_cast<Reduction>(reduction));
          check.seed = static_cast<unsigned>(reduction * 10 + scaled);
          check.special.clear();
          if (scaled == 0) check.special = {std::nan(""), 1, 1, 1, 1, std::numeric_limits<double>::infinity()};
          check.low = reduction == 1 ? 0.9 : -2, check.high = reduction == 1 ? 1.1 : 2;
          check_kernel_runs(b.finish("rows"), check);
        }
}

TEST(Accumulate, CutsAndKeeps) {
  const auto combined = [](DType dtype, DType value, Reduction reduction, double start, std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    const Kernel k = combining(dtype, value, reduction, count, 1, 1, false);
    Memory memory;
    for (const KernelArg& arg : k.args) memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype));
    store_double(memory[0].data(), dtype, 0, start);
    for (int64_t i = 0; i < count; ++i) store_double(memory[2].data(), value, i, values[static_cast<size_t>(i)]);
    Memory again = memory;
    evaluate(k, pointers(k, again), false);
    Loops loops(k, 1);
    EXPECT_TRUE(loops.run(pointers(k, memory).data()));
    const double found = load_double(memory[0].data(), dtype, 0), expected = load_double(again[0].data(), dtype, 0);
    EXPECT_TRUE(found == expected || (std::isnan(found) && std::isnan(expected))) << found << " " << expected;
    return found;
  };
  EXPECT_EQ(combined(DType::i8, DType::i64, Reduction::sum, 100, {100}), -56);
  EXPECT_EQ(combined(DType::i8, DType::i64, Reduction::max, 5, {260, 128}), 5);  // 4 and −128
  EXPECT_EQ(combined(DType::u8, DType::i64, Reduction::min, 5, {256, 300}), 0);
  EXPECT_EQ(combined(DType::i32, DType::i64, Reduction::product, 65536, {65536, 3}), 0);
  EXPECT_EQ(combined(DType::boolean, DType::boolean, Reduction::product, 1, {1, 0, 1}), 0);
  EXPECT_EQ(combined(DType::boolean, DType::boolean, Reduction::sum, 0, {0, 1, 1}), 1);
  EXPECT_TRUE(std::isnan(combined(DType::f32, DType::f32, Reduction::max, 1, {std::nan(""), 2})));
  EXPECT_TRUE(std::isnan(combined(DType::bf16, DType::f32, Reduction::min, std::nan(""), {2})));
}

TEST(Accumulate, TrapsOutsideTheDimension) {
  for (const bool points : {false, true})
    for (const int64_t bad : {-1, 4}) {
      const Kernel k = combining(DType::f32, DType::f32, Reduction::max, 3, points ? 1 : 2, 4, points);
      Check check;
      Memory memory = random_arguments(k, check);
      for (int64_t i = 0; i < 3; ++i) store_int(memory[1].data(), DType::i64, i, i == 1 ? bad : 0);
      Loops loops(k, 1);
      EXPECT_FALSE(loops.run(pointers(k, memory).data()));
      EXPECT_EQ(loops.trap_message(), fmt::format("index {} is out of range for a dimension of 4", bad));
    }
}

}  // namespace
}  // namespace npusim::cpu::loops
