// What is asked of kernels: dependence, liveness, ranges, dimensions that are one, memory that is shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "kernel/builder.h"
#include "kernel/evaluate.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/range.h"

namespace npusim {
namespace {

using testing::ElementsAre;

int32_t position(const Kernel& k, ExprOp op) {
  for (size_t i = 0; i < k.exprs.size(); ++i)
    if (k.exprs[i].op == op) return static_cast<int32_t>(i);
  ADD_FAILURE() << "no " << expr_op_name(op);
  return 0;
}

// x / max(x) along rows of 5, at which row a table says.
Kernel gathered_rows() {
  KernelBuilder b({4, 5}, 1);
  const int at = b.input({DType::i64, {4}}), x = b.input({DType::f32, {7, 5}});
  const Coord row[] = {b.dim(0)};
  const Coord from[] = {Coord(b.load(at, row)), b.dim(1)};
  const Ex value = b.load(x, from);
  b.store(b.output({DType::f32, {4, 5}}), value / b.reduce(Reduction::max, value));
  return b.finish("rows");
}

TEST(Facts, DependenceFollowsAddressesAndEndsAtReductions) {
  const Kernel k = gathered_rows();
  const Dependence depends = dependence_of(k);
  const auto index =
      static_cast<size_t>(k.accesses[1].terms.empty() ? k.accesses[0].terms[0].expr : k.accesses[1].terms[0].expr);
  const auto top = static_cast<size_t>(position(k, ExprOp::reduce)),
             out = static_cast<size_t>(position(k, ExprOp::div));
  EXPECT_EQ(row_of(k), DimSet{0b10});
  EXPECT_EQ(depends.dims[index], DimSet{0b01});
  EXPECT_EQ(depends.dims[static_cast<size_t>(k.exprs[top].in[0])], DimSet{0b11});
  EXPECT_EQ(depends.dims[top], DimSet{0b01});
  EXPECT_EQ(depends.dims[out], DimSet{0b11});
  EXPECT_EQ(depends.stage[index], 0);
  EXPECT_EQ(depends.stage[top], 1);
  EXPECT_EQ(depends.stage[out], 1);
}

TEST(Facts, RowsOfSixtyFourDimensions) {
  Kernel k;
  k.space.assign(64, 1);
  k.row_dims = 64;
  EXPECT_EQ(row_of(k), ~DimSet{0});
  k.row_dims = 0;
  EXPECT_EQ(row_of(k), DimSet{0});
  k.row_dims = 1;
  EXPECT_EQ(row_of(k), DimSet{1} << 63);
}

// A trap no store asks for is still one.
TEST(Facts, LiveWithAndWithoutTraps) {
  KernelBuilder b({3});
  const int x = b.input({DType::i64, {3}});
  const Ex value = b.load_broadcast(x);
  b.binary(ExprOp::idiv, value, value);
  b.store(b.output({DType::i64, {3}}), value + 1);
  Kernel k = b.finish("unused");
  const auto division = static_cast<size_t>(position(k, ExprOp::idiv));
  EXPECT_TRUE(live_expressions(k, true)[division]);
  EXPECT_FALSE(live_expressions(k, false)[division]);
  drop_dead(k);
  EXPECT_EQ(k.exprs.size(), 3U);
  EXPECT_TRUE(check_kernel(k).empty());
}

TEST(Facts, RangesOfAffineForms) {
  const auto r = range_of(3, {2, -5}, {4, 3});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->low, -7);
  EXPECT_EQ(r->high, 9);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(range_of(0, {1}, {most}));
  EXPECT_FALSE(range_of(0, {2}, {most}));
  EXPECT_FALSE(range_of(1, {1, 1}, {most, 2}));
  EXPECT_FALSE(widened({0, 1}, most, 2));
}

TEST(Facts, RangesOfIntegers) {
  KernelBuilder b({10});
  const int bytes = b.input({DType::u8, {10}}), any = b.input({DType::i64, {10}});
  const Ex i = b.index(0), byte = b.load_broadcast(bytes), wide = b.load_broadcast(any);
  b.store(b.output({DType::i64, {10}}), (i * 3 - byte) + min(wide, b.integer(7)));
  const Kernel k = b.finish("ranges");
  const auto ranges = integer_ranges(k);
  const auto difference = ranges[static_cast<size_t>(position(k, ExprOp::sub))];
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->low, -255);
  EXPECT_EQ(difference->high, 27);
  EXPECT_FALSE(ranges[static_cast<size_t>(position(k, ExprOp::min))]);
}

// The row of one element is gone, with its reductions; the other neighbours are one where all walk them so.
TEST(Facts, DimensionsThatAreOne) {
  KernelBuilder b({2, 3, 1, 4, 1}, 1);
  const int x = b.input({DType::f32, {2, 3, 1, 4, 1}}), y = b.input({DType::f32, {3, 1, 4, 1}});
  b.store(b.output({DType::f32, {2, 3, 1, 4}}),
          b.reduce(Reduction::sum, b.load_broadcast(x) * b.load_broadcast(y)) + b.index(2));
  Kernel k = b.finish("unit");
  const Kernel before = k;
  EXPECT_THAT(drop_unit_dims(k), ElementsAre(0, 1, 3));
  EXPECT_EQ(k.row_dims, 0);
  EXPECT_TRUE(merge_dims(k));
  EXPECT_THAT(k.space, ElementsAre(2, 12));
  EXPECT_FALSE(merge_dims(k));
  drop_dead(k);
  for (const Expr& e : k.exprs) EXPECT_NE(e.op, ExprOp::reduce);
  for (const std::string& problem : check_kernel(k)) ADD_FAILURE() << problem;
  std::vector<float> left(24), right(12), expected(24), found(24);
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i) - 7;
  for (size_t i = 0; i < right.size(); ++i) right[i] = 1.0F / static_cast<float>(i + 1);
  void* first[] = {left.data(), right.data(), expected.data()};
  void* second[] = {left.data(), right.data(), found.data()};
  evaluate(before, first);
  evaluate(k, second);
  EXPECT_EQ(expected, found);
}

TEST(Facts, IndexedDimensionsAndTheRowStayApart) {
  KernelBuilder b({2, 3, 4}, 1);
  const int x = b.input({DType::f32, {2, 3, 4}});
  b.store(b.output({DType::f32, {2, 3, 4}}), b.load_broadcast(x) + b.index(0));
  Kernel k = b.finish("indexed");
  EXPECT_FALSE(merge_dims(k));
  EXPECT_THAT(k.space, ElementsAre(2, 3, 4));
}

// Accumulating stores are parallel exactly along the dimensions that the address tells apart.
TEST(Facts, AddressesThatMeet) {
  KernelBuilder k({7, 5, 3});
  const int index = k.input({DType::i64, {7}}), source = k.input({DType::f32, {7, 5, 3}});
  const int out = k.output({DType::f32, {4, 3, 5}});
  const Coord row[] = {k.dim(0)};
  const Coord to[] = {Coord(k.load(index, row)), k.dim(2), k.dim(1)};
  k.store(out, to, k.load_broadcast(source), Reduction::sum);
  const Kernel kernel = k.finish("scatter");
  EXPECT_EQ(colliding_dims(kernel, kernel.stores[0].access), (std::vector<bool>{true, false, false}));
  Access overlapping = kernel.stores[0].access;
  overlapping.strides = {0, 1, 1};  // (1, 0) and (0, 1) meet
  EXPECT_EQ(colliding_dims(kernel, overlapping), (std::vector<bool>{true, true, true}));
}

// Of random places: where no dimension is said to make two points meet, none do; of two dimensions it is said exactly.
TEST(Facts, PointsThatAreSaidApartAreApart) {
  std::mt19937 random(1);
  const auto whole = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int64_t apart = 0;
  for (int n = 0; n < 20000; ++n) {
    Kernel k;
    Access a;
    const int64_t rank = whole(1, 3);
    for (int64_t d = 0; d < rank; ++d) k.space.push_back(whole(1, 5)), a.strides.push_back(whole(-12, 12));
    const bool guarded = whole(0, 3) == 0;
    if (guarded) {
      Guard g{std::vector<int64_t>(k.space.size()), whole(-2, 2), whole(1, 6), whole(0, 9)};
      for (int64_t& c : g.coeffs) c = whole(-1, 2);
      a.guards.push_back(std::move(g));
    }
    std::map<int64_t, int> seen;  // by address: how many points
    for (int64_t point = 0; point < element_count(k.space); ++point) {
      int64_t address = 0, value = guarded ? a.guards[0].offset : 0, rest = point;
      for (size_t d = 0; d < k.space.size(); rest /= k.space[d++]) {
        const int64_t index = rest % k.space[d];
        address += index * a.strides[d];
        if (guarded) value += index * a.guards[0].coeffs[d];
      }
      if (guarded && (value < 0 || value >= a.guards[0].limit)) continue;
      ++seen[address + (guarded ? value * a.guards[0].stride : 0)];
    }
    const bool meet = std::any_of(seen.begin(), seen.end(), [](const auto& one) { return one.second > 1; });
    std::vector<bool> said = colliding_dims(k, a);
    for (size_t d = 0; d < said.size(); ++d) said[d] = said[d] && k.space[d] > 1;
    const bool may = std::any_of(said.begin(), said.end(), [](bool b) { return b; });
    ASSERT_TRUE(may || !meet) << n;
    apart += !may;
    const auto dims = std::count_if(k.space.begin(), k.space.end(), [](int64_t e) { return e > 1; });
    if (!guarded && dims <= 2) {
      ASSERT_EQ(may, meet) << n;
    }
  }
  EXPECT_GT(apart, 5000);
}

}  // namespace
}  // namespace npusim
