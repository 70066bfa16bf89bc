// The loops interpreter against the reference evaluator: elements that only move, and indices that make runs of them.
#include <random>

#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
namespace {

const std::vector<DType> dtypes{DType::f32, DType::f64, DType::f16, DType::boolean, DType::i64};

Check check_of(DType dtype) {
  Check check;
  if (dtype == DType::boolean) check.least = 0, check.most = 1;
  return check;
}

// Dimensions in another order, some of them backwards or with gaps between their elements.
TEST(LoopsMoved, Strides) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 160; ++round) {
    const int64_t extents[] = {1, 2, 3, 4, 5, 8, 17, 33, 64, 70, 131};
    Shape shape;
    for (int64_t d = 0, rank = 1 + below(4); d < rank; ++d) shape.push_back(extents[below(rank > 2 ? 8 : 11)]);
    std::vector<size_t> order(shape.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random);
    KernelBuilder b(shape);
    Shape from(shape.size());
    std::vector<Coord> at;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto own = static_cast<int>(order[d]);
      const int64_t n = shape[order[d]], step = 1 + (below(3) == 0 ? below(4) : 0);
      const int64_t before = below(2) * below(5);
      const int form = static_cast<int>(below(4));
      from[d] = before + (n - 1) * step + 1 + below(2);
      if (form == 0)
        at.emplace_back(b.dim(own) * -step + (before + (n - 1) * step));
      else if (form == 1)
        at.emplace_back(before);
      else
        at.emplace_back(b.dim(own) * step + before);
    }
    const DType dtype = dtypes[static_cast<size_t>(below(5))];
    const Ex x = b.load(b.input({dtype, from}), at);
    b.store(b.output({dtype, shape}), x);
    check_kernel_runs(b.finish("moved"), check_of(dtype));
    if (HasFatalFailure()) return;
  }
}

// Each element several times, along some dimensions, alone and next to what is copied otherwise or computed.
TEST(LoopsMoved, Repeats) {
  std::mt19937 random(23);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 120; ++round) {
    const int64_t extents[] = {1, 2, 3, 5, 8, 17, 40, 129}, times[] = {1, 2, 2, 3, 4, 7};
    Shape shape, from;
    std::vector<int64_t> repeats;
    for (int64_t d = 0, rank = 1 + below(4); d < rank; ++d) {
      from.push_back(extents[below(rank > 2 ? 6 : 8)]);
      repeats.push_back(times[below(6)]);
      shape.push_back(from.back() * repeats.back() - (below(5) == 0 && repeats.back() > 1 ? 1 : 0));
    }
    const int form = static_cast<int>(below(4));
    Shape whole = shape;
    if (form == 1) whole.back() *= 2;  // next to others
    KernelBuilder b(whole);
    const DType dtype = dtypes[static_cast<size_t>(below(5))];
    std::vector<Coord> at, plain;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto own = static_cast<int>(d);
      plain.emplace_back(b.dim(own));
      at.emplace_back(repeats[d] == 1 ? b.dim(own)
                                      : Coord(min(idiv(b.index(own), b.integer(repeats[d])), from[d] - 1)));
      if (repeats[d] > 1 && form != 1 && below(4) != 0) at.back() = Coord(idiv(b.index(own), b.integer(repeats[d])));
    }
    Ex x = b.load(b.input({dtype, from}), at);
    if (form == 1)
      x = select(b.index(static_cast<int>(shape.size()) - 1) < shape.back(), x, b.load(b.input({dtype, whole}), plain));
    if (form == 2 && dtype != DType::boolean) x = x + b.load(b.input({dtype, whole}), plain);
    b.store(b.output({dtype, whole}), x);
    if (form == 3) b.store(b.output({DType::i64, whole}), b.index(0));
    check_kernel_runs(b.finish("repeats"), check_of(dtype));
    if (HasFatalFailure()) return;
  }
}

// Rows that are gathered and stored as they are, next to others that need room for what they compute.
TEST(LoopsMoved, RowsBesideOthers) {
  std::mt19937 random(29);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 100; ++round) {
    const int64_t extents[] = {1, 2, 3, 5, 8, 16, 17, 40, 129};
    const int64_t rows = extents[below(9)], columns = extents[below(9)], from = extents[below(9)];
    const Shape shape{rows, columns};
    KernelBuilder b(shape);
    const std::vector<Coord> here{Coord(b.dim(0)), Coord(b.dim(1))};
    struct Output {
      DType dtype;
      int64_t form;
      int table, named, whole;
    };
    std::vector<Output> outputs;  // arguments that are read come before those that are written
    for (int64_t n = 1 + below(4); n > 0; --n) {
      const DType dtype = dtypes[static_cast<size_t>(below(5))];
      outputs.push_back({dtype, below(4), b.input({dtype, {from, columns}}), b.input({DType::i64, {rows}}),
                         b.input({DType::i64, shape})});
    }
    for (const Output& one : outputs) {
      const Ex named = b.load(one.named, std::vector<Coord>{Coord(b.dim(0))});
      const Ex index = below(2) ? min(idiv(b.index(0), b.integer(1 + below(4))), from - 1) : min(named, from - 1);
      const Ex x = b.load(one.table, std::vector<Coord>{Coord(index), Coord(b.dim(1))});
      if (one.form == 0)
        b.store(b.output({DType::i64, shape}), b.index(static_cast<int>(below(2))) + below(9));
      else if (one.form == 1)
        b.store(b.output({DType::f32, shape}), b.cast(named, Scalar::f32) * 0.5);
      else if (one.form == 2)
        b.store(b.output({DType::i64, shape}), index * index + b.load(one.whole, here));
      b.store(b.output({one.dtype, shape}), x);
    }
    Check check;
    check.seed = static_cast<unsigned>(round), check.most = 1;
    check_kernel_runs(b.finish("rows"), check);
    if (HasFatalFailure()) return;
  }
}

// Squares of whole lines, and what is next to them; rows of any length, which are few vectors where they are short.
TEST(LoopsMoved, SquaresAndShortRuns) {
  std::mt19937 random(11);
  for (const DType dtype : dtypes)
    for (int round = 0; round < 24; ++round) {
      const int64_t sides[] = {15, 16, 33, 63, 64, 65, 130, 200};
      const int64_t rows = sides[random() % 8], columns = sides[random() % 8];
      KernelBuilder b({rows, columns});
      const bool back = random() % 2;
      const Coord at[] = {back ? b.dim(1) * -1 + (columns - 1) : b.dim(1) + 0, b.dim(0)};
      const Ex transposed = b.load(b.input({dtype, {columns, rows}}), at);
      b.store(b.output({dtype, {rows, columns}}), transposed);
      check_kernel_runs(b.finish("transposed"), check_of(dtype));
      const auto n = static_cast<int64_t>(1 + random() % 600);
      KernelBuilder r({7, n});
      const Coord from[] = {r.dim(0), r.dim(1) + 1};
      const Ex run = r.load(r.input({dtype, {7, n + 3}}), from);
      r.store(r.output({dtype, {7, n}}), run);
      check_kernel_runs(r.finish("runs"), check_of(dtype));
      if (HasFatalFailure()) return;
    }
}

// Long rows whose targets lie a few bytes ahead of their sources within a page.
TEST(LoopsMoved, RowsAhead) {
  for (int64_t ahead : {0, 1, 3, 7, 16, 1023})
    for (int64_t n : {1000, 2048, 5000}) {
      KernelBuilder b({3, n});
      const Coord at[] = {b.dim(0), b.dim(1) + ahead};
      const Ex x = b.load(b.input({DType::f32, {3, n + ahead}}), at);
      b.store(b.output({DType::f32, {3, n}}), x);
      check_kernel_runs(b.finish("ahead"));
      if (HasFatalFailure()) return;
    }
}

// Rows that are gathered only to be stored.
TEST(LoopsMoved, GatheredRows) {
  for (int64_t columns : {1, 3, 16, 65, 1030})
    for (DType dtype : dtypes) {
      KernelBuilder b({40, columns});
      const int rows = b.input({dtype, {6, columns}});
      const Coord row[] = {b.dim(0)};
      const Coord at[] = {b.load(b.input({DType::i64, {40}}), row), b.dim(1)};
      const Ex x = b.load(rows, at);
      b.store(b.output({dtype, {40, columns}}), x);
      Check check = check_of(dtype);
      check.most = dtype == DType::boolean ? 1 : 5;
      check_kernel_runs(b.finish("rows"), check);
      if (HasFatalFailure()) return;
    }
}

// A border as indices make it: its mode along one dimension.
Ex bordered(int mode, Ex j, int64_t n) {
  switch (mode) {
    case 0:
      return (n - 1) - abs((n - 1) - abs(j));
    case 1:
      return max(min(j, n - 1), 0);
    case 2:
      return select(j < 0, j + n, select(j >= n, j - n, j));
    case 3:
      return irem(j + n, j.builder->integer(n));
    default:
      return idiv(j + n, j.builder->integer(3));
  }
}

TEST(LoopsMoved, Borders) {
  for (int mode = 0; mode < 5; ++mode)
    for (int64_t before : {0, 1, 3})
      for (int64_t after : {0, 2, 4})
        for (const int64_t n : {5, 6, 19, 200}) {
          const int64_t out = n + before + after;
          KernelBuilder b({3, out, 7 + before});
          const DType dtype = dtypes[static_cast<size_t>(n % 5)];
          const int from = b.input({dtype, {3, n, 7}});
          const Ex j = b.index(1) - before, i = b.index(2) - before;
          const Coord at[] = {b.dim(0), bordered(mode, j, n), bordered(mode % 4, i, 7)};
          const Ex x = b.load(from, at);
          b.store(b.output({dtype, {3, out, 7 + before}}), x);
          check_kernel_runs(b.finish("border"), check_of(dtype));
          if (HasFatalFailure()) return;
        }
}

// Borders of many images, which are written in rounds with what they surround: around, above or next to it.
TEST(LoopsMoved, BordersInTurns) {
  for (int mode = 0; mode < 5; ++mode)
    for (const auto& [high, wide] : {std::pair<int64_t, int64_t>{1, 2}, {0, 1}, {2, 0}}) {
      const int64_t n = 37, h = n + 2 * high, w = n + 2 * wide;
      KernelBuilder b({60, h, w});
      const DType dtype = dtypes[static_cast<size_t>(mode)];
      const Ex j = b.index(1) - high, i = b.index(2) - wide;
      const Coord at[] = {b.dim(0), bordered(mode, j, n), bordered(mode % 4, i, n)};
      const Ex x = b.load(b.input({dtype, {60, n, n}}), at);
      b.store(b.output({dtype, {60, h, w}}), x);
      check_kernel_runs(b.finish("borders"), check_of(dtype));
      if (HasFatalFailure()) return;
    }
}

// An affine index beyond its extent is still a trap.
TEST(LoopsMoved, OutsideIsATrap) {
  KernelBuilder b({10});
  const Coord at[] = {b.index(0) + 1};
  const Ex x = b.load(b.input({DType::f32, {10}}), at);
  b.store(b.output({DType::f32, {10}}), x);
  const Kernel k = b.finish("beyond");
  std::vector<float> from(10), to(10);
  void* args[] = {from.data(), to.data()};
  Loops loops(k, 1);
  EXPECT_FALSE(loops.run(args));
  EXPECT_EQ(loops.trap_message(), "index 10 is out of range for a dimension of 10");
}

// Conditions of several indices, alone, together and in a row.
TEST(LoopsMoved, Conditions) {
  for (int64_t n : {1, 5, 16, 70, 300})
    for (int64_t c : {-3, -1, 0, 1, 2, 40}) {
      KernelBuilder b({5, 9, n});
      const Ex x = b.load_broadcast(b.input({DType::f32, {5, 9, n}}));
      const Ex i = b.index(1), j = b.index(2), h = b.index(0);
      const Ex lower = j - i <= c, near = (i * 2 - j < 7) && (j * 3 < i + n), equal = j == i + c;
      const Shape shape{5, 9, n};
      b.store(b.output({DType::f32, shape}), select(lower, x, 0.5));
      b.store(b.output({DType::f32, shape}), select(near && h < 3, x, select(equal, x * 2, 1)));
      b.store(b.output({DType::boolean, shape}), near || !lower || equal);
      check_kernel_runs(b.finish("conditions"));
      if (HasFatalFailure()) return;
    }
}

// Rows of few columns, each of an element whose index an integer of its own names, of its row or of its column; in rows
// that lie together and apart, and of two tables.
TEST(LoopsMoved, ShortRowsOfNamedPlaces) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 90; ++round) {
    const int64_t heights[] = {1, 3, 70, 700, 3000}, rows = heights[below(5)], columns = 1 + below(18);
    const int64_t in = 1 + below(9), form = below(4), gap = below(3);
    const DType dtype = dtypes[static_cast<size_t>(below(5))];
    KernelBuilder b({rows, columns});
    const int x = b.input({dtype, {rows, in}});
    const int table = b.input({below(4) == 0 ? DType::i32 : DType::i64, {rows, columns}});
    const Ex named = b.load(table, std::vector<Coord>{form == 1 ? Coord(int64_t{0}) : Coord(b.dim(0)),
                                                      form == 2 ? Coord(int64_t{0}) : Coord(b.dim(1))});
    const bool from_end = below(2) == 0, computed = below(2) == 0 && dtype != DType::boolean;
    const Ex chosen = select(named < 0, named + in, named), rest = irem(named + in, b.integer(in));
    const Ex index = !from_end ? named : below(2) ? chosen : rest;
    const Ex found = b.load(x, std::vector<Coord>{b.dim(0), Coord(index)});
    const Ex of_row = b.load(x, std::vector<Coord>{b.dim(0), Coord(int64_t{0})});
    const Ex one = !computed ? found : below(2) ? found * 3 + b.cast(index, found.type()) : found - of_row;
    const int out = b.output({dtype, {rows, columns + gap}});
    b.store(out, std::vector<Coord>{b.dim(0), b.dim(1) + gap}, one);
    if (form == 3) {
      const Ex other = b.load(x, std::vector<Coord>{Coord(int64_t{0}), Coord(index)});
      b.store(b.output({dtype, {rows, columns}}), std::vector<Coord>{b.dim(0), b.dim(1)}, other);
    }
    Check check;
    check.least = from_end && dtype != DType::boolean ? -in : 0;
    check.most = dtype == DType::boolean ? std::min<int64_t>(in - 1, 1) : in - 1;
    check_kernel_runs(b.finish("named"), check);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops
