// Gathers and scatters with indices that are in range.
#include "random/maker.h"

namespace npusim::test {
namespace {

struct Place {
  ValueId x = no_value;
  int64_t dim = 0, extent = 0;
};

Place place(Maker& m) {
  const ValueId x = m.floats(1, 4);
  const int64_t dim = m.dim(m.shape_of(x));
  return {x, dim, m.shape_of(x)[static_cast<size_t>(dim < 0 ? dim + m.rank(x) : dim)]};
}

Shape with_extent(Maker& m, const Place& p, int64_t extent) {
  Shape shape = m.shape_of(p.x);
  shape[static_cast<size_t>(p.dim < 0 ? p.dim + m.rank(p.x) : p.dim)] = extent;
  return shape;
}

bool gather(Maker& m) {
  const Place p = place(m);
  if (p.extent == 0) return false;
  const int64_t count = m.extent();
  switch (m.pick(5)) {
    case 0:
      return m.one("aten.index_select.default", {p.x, m.index({count}, p.extent)}, {{"dim", p.dim}}) != no_value;
    case 1: {
      const int64_t n = m.shape_of(p.x)[0];
      return n > 0 && m.one("aten.index.Tensor", {p.x, std::vector<ValueId>{m.index(m.shape(0, 2), n)}}) != no_value;
    }
    case 2: {
      const ValueId table = m.given_float({1 + m.extent(), m.extent()}, true);
      return m.one("aten.embedding.default", {table, m.index(m.shape(1, 2), m.shape_of(table)[0])}) != no_value;
    }
    case 3: {  // two indices side by side
      if (m.rank(p.x) < 2 || m.shape_of(p.x)[0] == 0 || m.shape_of(p.x)[1] == 0) return false;
      const Shape shape = m.shape(1, 2);
      return m.one("aten.index.Tensor",
                   {p.x, std::vector<ValueId>{m.index(shape, m.shape_of(p.x)[0]),
                                              m.index(m.broadcast_to(shape), m.shape_of(p.x)[1])}}) != no_value;
    }
    default:
      return m.one("aten.gather.default", {p.x, m.index(with_extent(m, p, count), p.extent)}, {{"dim", p.dim}}) !=
             no_value;
  }
}

// What is written may be the value itself or come from it.
ValueId source(Maker& m, ValueId x, const Shape& shape) {
  if (m.shape_of(x) == shape && m.chance(40)) {
    if (m.chance(50)) return x;
    const ValueId made = m.one(m.chance(50) ? "aten.mul.Tensor" : "aten.add.Tensor", {x, number_operand(m.real())});
    if (made != no_value) return made;
  }
  return m.given_float(shape);
}

bool scatter(Maker& m) {
  const Place p = place(m);
  if (p.extent == 0) return false;
  const int64_t count = m.chance(50) ? p.extent : 1 + m.pick(p.extent);
  const Shape shape = with_extent(m, p, count);
  const bool rows = m.rank(p.x) == 1;  // several indices to one place write in an order that is not said
  switch (m.pick(6)) {
    case 0:
      return m.one("aten.index_add.default", {p.x, m.index({count}, p.extent), source(m, p.x, shape)},
                   {{"dim", p.dim}}) != no_value;
    case 1:
      return m.one("aten.index_copy.default", {p.x, m.index({count}, p.extent, true), source(m, p.x, shape)},
                   {{"dim", p.dim}}) != no_value;
    case 2:
      return m.one("aten.scatter_add.default", {p.x, m.index(shape, p.extent), source(m, p.x, shape)},
                   {{"dim", p.dim}}) != no_value;
    case 3: {
      if (!rows)
        return m.one("aten.scatter.value", {p.x, m.index(shape, p.extent)}, {{"dim", p.dim}, {"value", m.real()}}) !=
               no_value;
      return m.one("aten.scatter.src", {p.x, m.index(shape, p.extent, true), source(m, p.x, shape)},
                   {{"dim", p.dim}}) != no_value;
    }
    case 4: {
      Shape of = m.shape_of(p.x);
      const int64_t n = of[0], some = 1 + m.pick(std::max<int64_t>(n, 1));
      if (n == 0) return false;
      of[0] = some;
      const bool adds = m.chance(40);
      return m.one("aten.index_put.default", {p.x, std::vector<ValueId>{m.index({some}, n, !adds)}, source(m, p.x, of)},
                   {{"accumulate", adds}}) != no_value;
    }
    default: {
      const int64_t start = m.pick(p.extent), end = start + 1 + m.pick(p.extent - start);
      return m.one("aten.slice_scatter.default", {p.x, source(m, p.x, with_extent(m, p, end - start))},
                   {{"dim", p.dim}, {"start", start}, {"end", end}}) != no_value;
    }
  }
}

// Rows of a value put at other places of the same value.
bool scatter_itself(Maker& m) {
  const ValueId x = m.floats(2, 3);
  const int64_t n = m.shape_of(x)[0];
  if (n == 0) return false;
  if (m.chance(50))
    return m.one("aten.index_copy.default", {x, m.index({n}, n, true), x}, {{"dim", int64_t{0}}}) != no_value;
  const ValueId places = m.index({n}, n, true);
  const ValueId column = m.one("aten.view.default", {places}, {{"size", Shape{n, 1}}});
  if (column == no_value || m.rank(x) != 2) return false;
  const ValueId wide = m.one("aten.expand.default", {column}, {{"size", m.shape_of(x)}});
  if (wide == no_value || m.type(wide).dtype != DType::i64) return false;
  return m.one("aten.scatter.src", {x, wide, x}, {{"dim", int64_t{0}}}) != no_value;
}

}  // namespace

std::vector<Action> index_actions() {
  return {{"gather", 6, gather}, {"scatter", 6, scatter}, {"scatter_itself", 1, scatter_itself}};
}

}  // namespace npusim::test
