// From the accesses of a contraction to axes in the order in which memory is walked.
#include "plan/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace npusim::plan {

Operand operand_of(const Kernel& k, const Access& access) {
  Operand o;
  o.arg = access.arg;
  o.elements = k.args[static_cast<size_t>(access.arg)].elements;
  o.word = static_cast<int>(16 / dtype_size(k.args[static_cast<size_t>(access.arg)].dtype));
  o.offset = access.offset;
  o.strides = access.strides;
  for (const Guard& g : access.guards) {
    o.offset += g.stride * g.offset;
    for (size_t d = 0; d < g.coeffs.size(); ++d) o.strides[d] += g.stride * g.coeffs[d];
    o.bounds.push_back({g.offset, g.limit, g.coeffs});
  }
  return o;
}

bool has_words(const std::vector<int64_t>& extents, const Operand& o, int dim) {
  const auto along = static_cast<size_t>(dim);
  if (o.strides[along] != 1 || extents[along] % o.word != 0 || o.offset % o.word != 0) return false;
  for (size_t d = 0; d < o.strides.size(); ++d)
    if (d != along && extents[d] > 1 && o.strides[d] % o.word != 0) return false;
  return std::none_of(o.bounds.begin(), o.bounds.end(), [&](const Bound& b) { return b.coeffs[along] != 0; });
}

void make_last(const std::vector<int64_t>& extents, Axis& axis, int dim) {
  std::vector<int> dims = axis.dims;
  std::erase(dims, dim);
  dims.push_back(dim);
  axis = make_axis(extents, std::move(dims));
}

namespace {

int find_words(const Product& p, const Operand& o, const Axis& axis) {
  for (int dim : axis.dims)
    if (has_words(p.extents, o, dim)) return dim;
  return -1;
}

// A dimension of less than a word that the operand has in words, as the channels of an image that is padded to words;
// -1: none. A lone vector has no room behind its last element, and is no word.
int find_parts_of_words(const Product& p, const Operand& o) {
  if (o.elements % o.word != 0) return -1;
  for (int dim : p.depth.dims) {
    std::vector<int64_t> padded = p.extents;
    if (int64_t& extent = padded[static_cast<size_t>(dim)]; extent < o.word) {
      extent = o.word;
      if (has_words(padded, o, dim)) return dim;
    }
  }
  return -1;
}

// The depth's order is free: last comes what both operands read in words, or else one of them.
void order_depth(Product& p) {
  int last = -1;
  for (int dim : p.depth.dims)
    if (has_words(p.extents, p.a, dim) && has_words(p.extents, p.b, dim)) last = dim;
  if (last < 0) last = find_words(p, p.a, p.depth);
  if (last < 0) {
    if (const int part = find_parts_of_words(p, p.a); part >= 0) {
      make_last(p.extents, p.depth, part);
      p.filled = static_cast<int>(p.extents[static_cast<size_t>(part)]);
      p.depth.extents.back() = word_of(p);
      p.a.words = Operand::Words::along_depth;
      if (find_parts_of_words(p, p.b) == part) p.b.words = Operand::Words::along_depth;
      return;
    }
    last = find_words(p, p.b, p.depth);
  }
  if (last >= 0) make_last(p.extents, p.depth, last);
  for (Operand* o : {&p.a, &p.b})
    if (last >= 0 && has_words(p.extents, *o, last)) o->words = Operand::Words::along_depth;
}

void order_across(Product& p, Operand& o, Axis& axis) {
  if (o.words != Operand::Words::none) return;
  const int dim = find_words(p, o, axis);
  if (dim < 0) return;
  make_last(p.extents, axis, dim);
  o.words = Operand::Words::across;
}

// Results that lie side by side are made by one thread. An operand that is read across its axis has the last dimension.
void order_results(const Kernel& k, Product& p) {
  const Store& store = k.stores[0];
  const auto step = [&](int dim) {
    int64_t by = store.access.strides[static_cast<size_t>(dim)];
    for (const Guard& g : store.access.guards) by += g.coeffs[static_cast<size_t>(dim)] * g.stride;
    return std::abs(by);
  };
  const auto free_axis = [](const Operand& o) { return o.words != Operand::Words::across; };
  const auto pick = [&](Axis& axis, const Operand& o) {
    int best = -1;
    for (int dim : axis.dims)
      if (step(dim) != 0 && (best < 0 || step(dim) < step(best))) best = dim;
    if (best >= 0 && free_axis(o)) make_last(p.extents, axis, best);
    return axis.dims.empty() || step(axis.dims.back()) == 0 ? int64_t{1} << 62 : step(axis.dims.back());
  };
  const int64_t along_columns = pick(p.columns, p.b), along_rows = pick(p.rows, p.a);
  p.lanes_are_rows = along_rows < along_columns;
  const Axis& axis = p.lanes_are_rows ? p.rows : p.columns;
  if (!axis.dims.empty() && axis.extents.back() % word == 0) p.lanes = word;
}

int work_of(const Kernel& k) {
  int work = 0;
  for (const Expr& e : k.exprs) switch (e.op) {
      case ExprOp::constant:
      case ExprOp::index:
      case ExprOp::load:
      case ExprOp::contraction:
        break;
      case ExprOp::div:
        work += 20;
        break;
      default:
        work += (e.op >= ExprOp::exp && e.op <= ExprOp::erfc) || e.op == ExprOp::pow ? 12 : 1;
    }
  return work;
}

int reads_of(const Kernel& k, const Product& p) {
  const auto along = [](const Access& a, const Axis& axis) {
    return std::any_of(axis.dims.begin(), axis.dims.end(), [&](int d) { return depends_on(a, d); });
  };
  return static_cast<int>(std::count_if(k.exprs.begin(), k.exprs.end(), [&](const Expr& e) {
    if (e.op != ExprOp::load) return false;
    const Access& a = k.accesses[static_cast<size_t>(e.integer)];
    return along(a, p.rows) && along(a, p.columns);
  }));
}

}  // namespace

std::optional<Product> find_product(const Kernel& k, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  if (!k.contraction) return none("there is no product");
  const Contraction& c = *k.contraction;
  if (c.kind == ContractionKind::attention) return none("it is an attention");
  const auto dtype = [&](const Access& a) { return k.args[static_cast<size_t>(a.arg)].dtype; };
  const DType type = dtype(c.a);
  if (type != dtype(c.b) || (type != DType::f16 && type != DType::bf16 && type != DType::f32))
    return none(fmt::format("operands of {} and {}, not of one 16-bit type or float32", dtype_name(type),
                            dtype_name(dtype(c.b))));
  if (std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; }))
    return none("what it stores adds up");
  Product p;
  p.dtype = type;
  p.extents = k.space;
  p.extents.insert(p.extents.end(), c.reduce.begin(), c.reduce.end());
  if (std::find(p.extents.begin(), p.extents.end(), 0) != p.extents.end()) return none("a dimension is empty");
  const ProductAxes axes = product_axes(k);
  p.batch = axes.batch, p.rows = axes.rows, p.columns = axes.columns, p.depth = axes.depth;
  for (Axis* axis : {&p.batch, &p.rows, &p.columns, &p.depth}) {
    std::vector<int> dims;
    for (int d : axis->dims)
      if (p.extents[static_cast<size_t>(d)] > 1) dims.push_back(d);
    *axis = make_axis(p.extents, std::move(dims));
  }
  const auto ones = static_cast<size_t>(std::count(p.extents.begin(), p.extents.end(), 1));
  const size_t kept = p.batch.dims.size() + p.rows.dims.size() + p.columns.dims.size() + p.depth.dims.size();
  if (kept + ones != p.extents.size()) return none("a dimension that neither operand has");
  constexpr int64_t most = int64_t{1} << 30;  // positions are int
  for (const Axis* axis : {&p.batch, &p.rows, &p.columns, &p.depth})
    if (axis->size() > most) return none(fmt::format("an axis of {}", axis->size()));
  p.a = operand_of(k, c.a), p.b = operand_of(k, c.b);
  p.filled = word_of(p);
  order_depth(p);
  order_across(p, p.a, p.rows);
  order_across(p, p.b, p.columns);
  order_results(k, p);
  p.reads = reads_of(k, p);
  p.work = work_of(k);
  return p;
}

}  // namespace npusim::plan
