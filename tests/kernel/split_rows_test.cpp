// Rows in pieces compute what the kernel does: reductions and scans of all kinds that wait for each other, one row and
// many, lengths that no number of pieces divides, several dimensions of a row, infinities and NaN.
#include "kernel/fuse/split_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/tensor.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"
#include "kernel/fuse/split_combining.h"

namespace npusim {
namespace {

using K = KernelBuilder;
using Memory = std::vector<HostTensor>;

struct Draw {
  std::mt19937_64 random;
  int64_t whole(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random); }
};

Memory memory_of(const Kernel& k, Draw& d, bool specials) {
  Memory memory;
  for (const KernelArg& arg : k.args) {
    HostTensor t = make_tensor({arg.dtype, {arg.elements}});
    for (int64_t i = 0; i < arg.elements; ++i) {
      if (!is_float(arg.dtype)) {
        store_int(t.data.data(), arg.dtype, i,
                  d.whole(arg.dtype == DType::boolean ? 0 : -3, arg.dtype == DType::boolean ? 1 : 3));
        continue;
      }
      const double inf = std::numeric_limits<double>::infinity(), special[] = {inf, -inf, std::nan(""), 0.0, -0.0};
      double x = std::uniform_real_distribution<double>(-2, 2)(d.random);
      if (specials && d.chance(0.01)) x = special[d.whole(0, 4)];
      store_double(t.data.data(), arg.dtype, i, x);
    }
    if (arg.updates >= 0) t.data = memory[static_cast<size_t>(arg.updates)].data;
    memory.push_back(std::move(t));
  }
  return memory;
}

void run(const Kernel& k, Memory& memory, const std::vector<int>& values) {
  std::vector<void*> args;
  for (size_t i = 0; i < values.size(); ++i)
    if (k.args[i].updates >= 0)
      memory[static_cast<size_t>(values[i])].data =
          memory[static_cast<size_t>(values[static_cast<size_t>(k.args[i].updates)])].data;
  for (int v : values) args.push_back(memory[static_cast<size_t>(v)].data.data());
  evaluate(k, args);
}

// What differs between the kernel and its steps of so many pieces; whether there are steps.
bool check_split(const Kernel& kernel, int64_t pieces, Draw& d, bool specials) {
  EXPECT_EQ(check_kernel(kernel), std::vector<std::string>{}) << to_text(kernel);
  const bool combines = kernel.stores[0].accumulate;
  const Unfused split = combines ? split_combining(kernel, pieces) : split_rows(kernel, pieces);
  if (split.steps.empty()) return false;
  for (const BoundKernel& step : split.steps)
    EXPECT_EQ(check_kernel(step.kernel), std::vector<std::string>{}) << to_text(kernel) << to_text(step.kernel);
  if (testing::Test::HasFailure()) return true;
  Memory expected = memory_of(kernel, d, specials), found = expected;
  for (const Unfused::Scratch& s : split.scratch) {
    found.push_back(make_tensor({s.dtype, {s.elements}}));
    std::fill(found.back().data.begin(), found.back().data.end(), std::byte{0xff});
  }
  std::vector<int> values;
  for (size_t i = 0; i < kernel.args.size(); ++i) values.push_back(static_cast<int>(i));
  run(kernel, expected, values);
  for (const BoundKernel& step : split.steps) run(step.kernel, found, step.values);
  for (size_t n = 0; n < kernel.args.size(); ++n)
    for (int64_t i = 0; i < kernel.args[n].elements; ++i) {
      const double a = load_double(expected[n].data.data(), kernel.args[n].dtype, i),
                   b = load_double(found[n].data.data(), kernel.args[n].dtype, i);
      // What adds up in float16 rounds after each of some 100 numbers, in pieces once.
      const double step = kernel.args[n].dtype == DType::f16 ? 0x1p-4 : 1e-5;
      const double near = is_float(kernel.args[n].dtype) ? step * (1 + std::abs(a)) : 0;
      if (!(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= near))
        ADD_FAILURE() << a << " became " << b << " at " << i << " in " << pieces << " pieces\n" << to_text(kernel);
      if (testing::Test::HasFailure()) return true;
    }
  return true;
}

// The place in the row, as a number.
Ex cast_index(K& k, const Shape& space) {
  const int last = static_cast<int>(space.size()) - 1;
  return k.cast(k.index(last), Scalar::f32);
}

// A kernel over rows of one or two dimensions whose folds wait for each other as `way` says.
Kernel drawn_rows(Draw& d, int way) {
  const bool scans = way >= 4;
  const int row_dims = scans ? 1 : static_cast<int>(d.whole(1, 2));
  Shape space, shape;
  for (int64_t n = d.whole(0, 2); n > 0; --n) space.push_back(d.whole(1, 5));
  for (int n = 0; n < row_dims; ++n) space.push_back(d.whole(row_dims == 1 ? 8 : 2, 40));
  const auto rows = space.size() - static_cast<size_t>(row_dims);
  const Shape outer(space.begin(), space.begin() + static_cast<std::ptrdiff_t>(rows));
  K k(space, row_dims);
  const bool turned = rows > 0 && d.chance(0.5);  // neighbouring rows are neighbours in memory
  shape = space;
  if (turned) std::rotate(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rows), shape.end());
  std::vector<Coord> at;
  for (size_t n = 0; n < space.size(); ++n)
    at.push_back(k.dim(static_cast<int>(turned ? (n + rows) % space.size() : n)));
  const DType type = way == 3 || way == 7 ? DType::i64 : DType::f32;
  const int in = k.input({type, shape}), of_row = k.input({DType::f32, outer});
  const auto any = [&] { return static_cast<Reduction>(d.whole(0, 3)); };
  const int along = way == 1 || scans ? k.output({type, shape}) : -1;
  const int places = way == 5 ? k.output({DType::i64, shape}) : -1;
  const int result = along < 0 ? k.output({type, outer}) : -1;
  const Ex x = k.load(in, at);
  std::vector<Coord> row;
  for (size_t n = 0; n < rows; ++n) row.push_back(k.dim(static_cast<int>(n)));
  const Ex given = rows > 0 ? k.load(of_row, row) : k.load(of_row, {});
  switch (way) {
    case 0:  // one that nothing waits for
      k.store(result, row, k.reduce(any(), x) + given);
      break;
    case 1: {  // a softmax
      const Ex e = exp(x - k.reduce(Reduction::max, x));
      k.store(along, at, e / k.reduce(Reduction::sum, e) + given);
      break;
    }
    case 2: {  // where the largest is, and the deviation
      const Ex top = k.reduce(Reduction::max, x), mean = k.reduce(Reduction::sum, x) * 0.125;
      const Ex place = cast_index(k, space);
      const Ex first = k.reduce(Reduction::min, select(x == top, place, k.number(1e9)));
      k.store(result, row, first + k.reduce(Reduction::sum, (x - mean) * (x - mean)));
      break;
    }
    case 3:
      k.store(result, row, k.reduce(any(), x));
      break;
    case 4:
      k.store(along, at, k.scan(any(), x) * k.reduce(Reduction::sum, x) + given);
      break;
    case 5: {  // a largest so far and where it is
      const Ex top = k.scan(Reduction::max, x);
      k.store(along, at, top);
      const int last = static_cast<int>(space.size()) - 1;
      k.store(places, at, k.scan(Reduction::max, select(x == top || isnan(x), k.index(last), k.integer(-1))));
      break;
    }
    case 6:
      k.store(along, at, k.scan(Reduction::sum, x - k.reduce(Reduction::max, x)));
      break;
    default:
      k.store(along, at, k.scan(any(), x));
  }
  return k.finish("rows");
}

TEST(SplitRows, PiecesOfRowsAreTheRows) {
  Draw d{std::mt19937_64{5}};
  int split = 0;
  for (int n = 0; n < 3000 && !HasFailure(); ++n) {
    const Kernel k = drawn_rows(d, n % 8);
    for (const int64_t pieces : {int64_t{2}, d.whole(3, 20)}) split += check_split(k, pieces, d, n % 3 == 0);
  }
  EXPECT_GT(split, 4000);
}

// Sums, products, least and largest at computed places of a result, some of its dimensions the points' own.
Kernel drawn_combining(Draw& d, DType type) {
  const int64_t own = d.whole(1, 4), first = d.whole(2, 30), second = d.whole(1, 6), places = d.whole(1, 9);
  K k({first, own, second});
  const int before = k.input({type, {places, own}}), to = k.input({DType::i64, {second, first}}),
            value = k.input({type, {first, own, second}}), out = k.output({type, {places, own}}, before);
  const Ex index = abs(k.load(to, std::vector<Coord>{k.dim(2), k.dim(0)}));
  const Ex place = min(index, k.integer(places - 1));
  Ex x = k.load_broadcast(value);
  if (type != DType::f16 && d.chance(0.5)) x = x * k.cast(k.index(0) - k.index(2), x.type());
  auto reduction = static_cast<Reduction>(d.whole(0, is_float(type) || type == DType::i64 ? 3 : 1));
  if (reduction == Reduction::product && is_float(type)) reduction = Reduction::sum;
  k.store(out, std::vector<Coord>{Coord(place), k.dim(1)}, x, reduction);
  return k.finish("combine");
}

TEST(SplitRows, PiecesOfWhatCombinesCombine) {
  Draw d{std::mt19937_64{6}};
  int split = 0;
  for (int n = 0; n < 2000 && !HasFailure(); ++n) {
    const DType types[] = {DType::f32, DType::i64, DType::f64, DType::i32, DType::u8, DType::f16};
    const Kernel k = drawn_combining(d, types[n % 6]);
    for (const int64_t pieces : {int64_t{2}, d.whole(3, 20)}) split += check_split(k, pieces, d, n % 3 == 0);
  }
  EXPECT_GT(split, 3000);
}

}  // namespace
}  // namespace npusim
