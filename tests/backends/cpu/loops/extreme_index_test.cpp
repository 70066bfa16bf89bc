// The loops interpreter against the reference evaluator: extremes and their indices, sums of products, counts.
#include <limits>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t nowhere = std::numeric_limits<int64_t>::max();

// Elements that are often equal; with infinities and NaN among them, or few others.
Check ties(unsigned seed) {
  Check check;
  check.seed = seed;
  check.least = -2, check.most = 2;
  check.special = {0, -0.0, 1, inf, -inf, nan};
  if (seed % 3 == 0) check.special = {-inf, inf, 0};
  if (seed % 3 == 1) check.special = {nan, -inf}, check.low = check.high = -1;
  return check;
}

// The row's first index of the extreme, of NaN the first or the last one.
Ex index_of(KernelBuilder& b, Ex x, Ex top, Ex at, bool last_nan, bool narrow) {
  const bool real = x.type() >= Scalar::f32;
  if (narrow) {
    at = b.cast(at, Scalar::f32);
    const Ex none = b.number(inf);
    if (!last_nan)
      return b.cast(b.reduce(Reduction::min, select(x == top, at, real ? select(isnan(x), at, none) : none)),
                    Scalar::i64);
    Ex first = b.reduce(Reduction::min, select(x == top, at, none));
    if (real) first = select(isnan(top), b.reduce(Reduction::max, select(isnan(x), at, -1)), first);
    return b.cast(first, Scalar::i64);
  }
  if (!last_nan) return b.reduce(Reduction::min, select(real ? x == top || isnan(x) : x == top, at, nowhere));
  Ex first = b.reduce(Reduction::min, select(x == top, at, nowhere));
  if (real) first = select(isnan(top), b.reduce(Reduction::max, select(isnan(x), at, int64_t{-1})), first);
  return first;
}

TEST(LoopPlaces, Rows) {
  unsigned seed = 1;
  for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::f16})
    for (const Shape& row :
         std::vector<Shape>{{1}, {2}, {15}, {64}, {197}, {4500}, {3, 7}, {6, 2}, {40, 33}, {2, 1500}})
      for (int form = 0; form < 16; ++form) {
        const bool outside = form & 1, last = form & 2, narrow = form & 4, least = form & 8;
        if (element_count(row) > 2000 && form % 5 != 0) continue;
        Shape space{3, 5};
        space.insert(space.end(), row.begin(), row.end());
        KernelBuilder b(space, static_cast<int>(row.size()));
        const auto rank = static_cast<int>(space.size());
        // `outside`: the row is not the nearest in memory.
        std::vector<Coord> at;
        Shape shape;
        for (int d = 0; d < rank; ++d) {
          const int own = outside ? rank - 1 - d : d;
          at.emplace_back(b.dim(own));
          shape.push_back(space[static_cast<size_t>(own)]);
        }
        const Ex x = b.load(b.input({dtype, shape}), at);
        const Reduction extreme = least ? Reduction::min : Reduction::max;
        const Ex top = b.reduce(extreme, x);
        Ex index = b.integer(0);
        for (int d = 2; d < rank; ++d) index = index * space[static_cast<size_t>(d)] + b.index(d);
        const Coord result[] = {b.dim(0), b.dim(1)};
        const Ex found = index_of(b, x, top, index, last, narrow);
        if (form % 3 != 0) b.store(b.output({dtype, {3, 5}}), result, top);
        b.store(b.output({DType::i64, {3, 5}}), result, found);
        check_kernel_runs(b.finish("index"), ties(++seed));
        if (HasFatalFailure()) return;
      }
}

// Windows that leave the operand, whose indices are counted in it.
TEST(LoopPlaces, Windows) {
  unsigned seed = 1;
  for (DType dtype : {DType::f32, DType::i64, DType::f64})
    for (int64_t n : {3, 8, 20, 70})
      for (int64_t size : {2, 3})
        for (int64_t stride : {1, 2, 3})
          for (int64_t padding : {0, 1}) {
            const int64_t count = (n + 2 * padding - size) / stride + 1, m = n / 2 + 2;
            const int64_t other = (m + 2 * padding - size) / stride + 1;
            KernelBuilder b({2, count, other, size, size}, 2);
            const Affine y = b.dim(1) * stride + b.dim(3) + -padding, z = b.dim(2) * stride + b.dim(4) + -padding;
            const Coord at[] = {b.dim(0), y, z};
            const Ex loaded = b.load(b.input({dtype, {2, n, m}}), at);
            const Ex inside = b.in_bounds(y, n) && b.in_bounds(z, m);
            const Ex lowest =
                is_float(dtype) ? b.number(-inf, scalar_of(dtype)) : b.integer(std::numeric_limits<int64_t>::min());
            const Ex x = padding > 0 ? select(inside, loaded, lowest) : loaded;
            const Ex top = b.reduce(Reduction::max, x);
            const Ex index = b.value(y) * m + b.value(z);
            const Ex hit = padding > 0 ? inside && x == top : x == top;
            Ex found = b.reduce(Reduction::min, select(hit, index, nowhere));
            if (padding > 0) found = select(found == nowhere, int64_t{-7}, found);
            if (is_float(dtype))
              found = select(isnan(top), b.reduce(Reduction::max, select(isnan(x), index, int64_t{-1})), found);
            const Coord result[] = {b.dim(0), b.dim(1), b.dim(2)};
            b.store(b.output({dtype, {2, count, other}}), result, top);
            b.store(b.output({DType::i64, {2, count, other}}), result, found);
            check_kernel_runs(b.finish("window"), ties(++seed));
            if (HasFatalFailure()) return;
          }
}

// Indices that are data.
TEST(LoopPlaces, Given) {
  unsigned seed = 1;
  for (int64_t n : {1, 7, 16, 300})
    for (bool last : {false, true})
      for (bool outside : {false, true}) {
        KernelBuilder b({9, n}, 1);
        const Coord direct[] = {b.dim(0), b.dim(1)}, transposed[] = {b.dim(1), b.dim(0)};
        const std::span<const Coord> at = outside ? std::span<const Coord>(transposed) : std::span<const Coord>(direct);
        const Shape shape = outside ? Shape{n, 9} : Shape{9, n};
        const Ex x = b.load(b.input({DType::f32, shape}), at), given = b.load(b.input({DType::i32, shape}), at);
        const Ex top = b.reduce(Reduction::max, x);
        const Coord result[] = {b.dim(0)};
        const Ex found = index_of(b, x, top, given, last, true);
        b.store(b.output({DType::f32, {9}}), result, top);
        b.store(b.output({DType::i64, {9}}), result, found);
        Check check = ties(++seed);
        check.least = 0, check.most = 1000;
        check_kernel_runs(b.finish("given"), check);
        if (HasFatalFailure()) return;
      }
}

TEST(LoopPlaces, SumsOfProductsAndCounts) {
  for (int64_t n : {1, 3, 16, 100, 1000, 5000, 40000})
    for (int64_t rows : {1, 4, 50})
      for (bool outside : {false, true}) {
        if (n * rows > 100000) continue;
        KernelBuilder b({rows, n}, 1);
        const Coord direct[] = {b.dim(0), b.dim(1)}, transposed[] = {b.dim(1), b.dim(0)};
        const std::span<const Coord> at = outside ? std::span<const Coord>(transposed) : std::span<const Coord>(direct);
        const Shape shape = outside ? Shape{n, rows} : Shape{rows, n};
        const Ex x = b.load(b.input({DType::f32, shape}), at), y = b.load(b.input({DType::f32, shape}), at);
        const Coord one[] = {b.dim(0)};
        const Ex scale = b.load(b.input({DType::f32, {rows}}), one);
        const Ex sum = b.reduce(Reduction::sum, x * y), square = b.reduce(Reduction::sum, x * x);
        const Ex scaled = b.reduce(Reduction::sum, y * scale);
        const Ex count = b.reduce(Reduction::sum, b.cast(x > 0.25, Scalar::i64));
        const double size = static_cast<double>(n);
        b.store(b.output({DType::f32, {rows}}), one, sum / size);
        b.store(b.output({DType::f32, {rows}}), one, square / size);
        b.store(b.output({DType::f32, {rows}}), one, scaled / size);
        b.store(b.output({DType::i64, {rows}}), one, count);
        check_kernel_runs(b.finish("sums"));
        if (HasFatalFailure()) return;
      }
}

}  // namespace
}  // namespace npusim::cpu::loops
