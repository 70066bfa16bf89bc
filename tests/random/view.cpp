// Views of every kind, views of views, and what rearranges and joins.
#include <algorithm>
#include <numeric>

#include "random/maker.h"

namespace npusim::test {
namespace {

std::vector<int64_t> permutation(Maker& m, int64_t rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  std::shuffle(dims.begin(), dims.end(), m.random());
  return dims;
}

// The same elements in another number of dimensions.
Shape refolded(Maker& m, Shape shape) {
  for (int64_t times = 1 + m.pick(2); times > 0; --times) {
    const auto rank = static_cast<int64_t>(shape.size());
    if (rank >= 2 && m.chance(50)) {
      const auto d = static_cast<std::ptrdiff_t>(m.pick(rank - 1));
      shape[static_cast<size_t>(d)] *= shape[static_cast<size_t>(d) + 1];
      shape.erase(shape.begin() + d + 1);
    } else if (rank >= 1) {
      const auto d = static_cast<size_t>(m.pick(rank));
      std::vector<int64_t> divisors;
      for (int64_t n = 1; n <= shape[d]; ++n)
        if (shape[d] % n == 0) divisors.push_back(n);
      if (divisors.empty()) continue;
      const int64_t divisor = m.choose(divisors);
      shape[d] /= divisor;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), divisor);
    } else {
      shape.push_back(1);
    }
  }
  return shape;
}

ValueId one_of(Maker& m, const std::vector<ValueId>& pieces) { return pieces.empty() ? no_value : m.choose(pieces); }

ValueId slice(Maker& m, ValueId x) {
  const Shape shape = m.shape_of(x);
  const int64_t dim = m.dim(shape), n = shape[static_cast<size_t>(dim < 0 ? dim + m.rank(x) : dim)];
  int64_t start = m.pick(n + 1), end = start + m.pick(n - start + 1);
  if (end == start && !m.on("empty")) end = std::min(n, start + 1);
  if (m.chance(20)) end = int64_t{9223372036854775807};
  if (m.chance(20)) start -= n;
  return m.one("aten.slice.Tensor", {x},
               {{"dim", dim}, {"start", start}, {"end", end}, {"step", m.chance(75) ? int64_t{1} : 1 + m.pick(3)}});
}

bool view(Maker& m) { return random_view(m, m.floats(0, 5)) != no_value; }

bool views_of_views(Maker& m) {
  ValueId x = m.chance(80) ? m.floats(1, 5) : m.some([](const TensorType& t) { return !is_float(t.dtype); });
  for (int64_t times = 2 + m.pick(3); times > 0 && x != no_value; --times) x = random_view(m, x);
  return x != no_value;
}

bool rearrange(Maker& m) {
  const ValueId x = m.floats(1, 4);
  const int64_t dim = m.dim(m.shape_of(x));
  switch (m.pick(7)) {
    case 0:
      return m.one("aten.flip.default", {x}, {{"dims", std::vector<int64_t>{dim}}}) != no_value;
    case 1:
      return m.one("aten.roll.default", {x},
                   {{"shifts", std::vector<int64_t>{m.pick(7) - 3}}, {"dims", std::vector<int64_t>{dim}}}) != no_value;
    case 2:
      return m.one(m.chance(50) ? "aten.tril.default" : "aten.triu.default", {x}, {{"diagonal", m.pick(5) - 2}}) !=
             no_value;
    case 3: {
      std::vector<int64_t> repeats(static_cast<size_t>(m.rank(x)), 1);
      repeats[static_cast<size_t>(m.pick(m.rank(x)))] = 2;
      return m.one("aten.repeat.default", {x}, {{"repeats", repeats}}) != no_value;
    }
    case 4:
      return m.one("aten.repeat_interleave.self_int", {x}, {{"repeats", int64_t{2}}, {"dim", dim}}) != no_value;
    default: {
      std::vector<int64_t> pad;
      for (int64_t d = std::min<int64_t>(m.rank(x), 1 + m.pick(2)); d > 0; --d)
        for (int side = 0; side < 2; ++side) pad.push_back(m.pick(4) - (m.chance(20) ? 1 : 0));
      if (m.chance(70))
        return m.one("aten.constant_pad_nd.default", {x}, {{"pad", pad}, {"value", m.real()}}) != no_value;
      for (int64_t& p : pad) p = std::max<int64_t>(p, 0);
      const std::vector<std::string> modes{"reflect", "replicate", "circular"};
      return m.one("aten.pad.default", {x}, {{"pad", pad}, {"mode", m.choose(modes)}}) != no_value;
    }
  }
}

bool join(Maker& m) {
  const ValueId x = m.floats(1, 4);
  const int64_t dim = m.dim(m.shape_of(x));
  std::vector<ValueId> parts{x};
  const bool stack = m.chance(30);
  for (int64_t more = 1 + m.pick(3); more > 0; --more) {
    Shape shape = m.shape_of(x);
    if (!stack && m.chance(50)) shape[static_cast<size_t>(dim < 0 ? dim + m.rank(x) : dim)] = m.extent();
    parts.push_back(m.like(shape, x));
  }
  return m.one(stack ? "aten.stack.default" : "aten.cat.default", {parts}, {{"dim", dim}}) != no_value;
}

// Pieces of one value, worked on apart and joined again.
bool split_and_join(Maker& m) {
  const ValueId x = m.floats(1, 4);
  const int64_t dim = m.dim(m.shape_of(x));
  std::vector<ValueId> parts = m.call("aten.chunk.default", {x}, {{"chunks", 2 + m.pick(2)}, {"dim", dim}});
  if (parts.empty()) return false;
  const ValueId other = m.one(unary_op(m), {parts[0]});
  if (other != no_value && m.type(other).dtype == m.type(x).dtype) parts[0] = other;
  std::shuffle(parts.begin(), parts.end(), m.random());
  return m.one("aten.cat.default", {parts}, {{"dim", dim}}) != no_value;
}

bool strided(Maker& m) {
  const ValueId x = m.floats(1, 3);
  const int64_t n = element_count(m.shape_of(x));
  if (n < 2) return false;
  const int64_t inner = 1 + m.pick(2), columns = 1 + m.pick(std::min<int64_t>(n / inner, 4)), outer = 1 + m.pick(6);
  const int64_t reach = (columns - 1) * inner, rows = 1 + m.pick(std::max<int64_t>(1, (n - 1 - reach) / outer + 1));
  const int64_t used = (rows - 1) * outer + reach;
  if (used >= n) return false;
  return m.one(
             "aten.as_strided.default", {x},
             {{"size", Shape{rows, columns}}, {"stride", Shape{outer, inner}}, {"storage_offset", m.pick(n - used)}}) !=
         no_value;
}

}  // namespace

ValueId random_view(Maker& m, ValueId x) {
  const int64_t rank = m.rank(x);
  const Shape shape = m.shape_of(x);
  if (rank == 0) return m.one("aten.unsqueeze.default", {x}, {{"dim", int64_t{0}}});
  const int64_t dim = m.dim(shape);
  switch (m.pick(16)) {
    case 0:
      return m.one("aten.view.default", {x}, {{"size", refolded(m, shape)}});
    case 1:
      return m.on("reshape") ? m.one("aten.reshape.default", {x}, {{"shape", refolded(m, shape)}}) : no_value;
    case 2:
      return m.on("reshape") ? m.one("aten.flatten.using_ints", {x}) : no_value;
    case 3:
      return m.one("aten.permute.default", {x}, {{"dims", permutation(m, rank)}});
    case 4:
      if (rank == 2) return m.one("aten.t.default", {x});
      return m.one("aten.transpose.int", {x}, {{"dim0", dim}, {"dim1", m.dim(shape)}});
    case 5:
      return m.one("aten.transpose.int", {x}, {{"dim0", dim}, {"dim1", m.dim(shape)}});
    case 6: {
      const int64_t n = shape[static_cast<size_t>(dim < 0 ? dim + rank : dim)];
      return n == 0 ? no_value
                    : m.one("aten.select.int", {x}, {{"dim", dim}, {"index", m.pick(n) - (m.chance(30) ? n : 0)}});
    }
    case 7: {
      Shape wide = shape;
      for (int64_t& n : wide)
        if (n == 1) n = 1 + m.pick(4);
      if (m.chance(50)) wide.insert(wide.begin(), 1 + m.pick(3));
      return m.one("aten.expand.default", {x}, {{"size", wide}});
    }
    case 8:
      return m.one("aten.unsqueeze.default", {x}, {{"dim", m.pick(rank + 1)}});
    case 9:
      return m.one("aten.squeeze.default", {x});
    case 10:
      return one_of(m, m.call("aten.split.Tensor", {x}, {{"split_size", 1 + m.pick(4)}, {"dim", dim}}));
    case 11:
      return one_of(m, m.call("aten.unbind.int", {x}, {{"dim", dim}}));
    case 12:
      return rank < 2 ? no_value : m.one("aten.diagonal.default", {x}, {{"offset", m.pick(3) - 1}});
    default:
      return slice(m, x);
  }
}

std::vector<Action> view_actions() {
  return {{"view", 9, view}, {"views_of_views", 4, views_of_views}, {"rearrange", 4, rearrange},
          {"join", 4, join}, {"split_and_join", 2, split_and_join}, {"as_strided", 1, strided}};
}

}  // namespace npusim::test
