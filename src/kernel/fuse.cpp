// Substitution of a producer's expressions for a consumer's loads.
#include "kernel/fuse.h"

#include <algorithm>

#include "kernel/index_map.h"
#include "kernel/simplify.h"

namespace npusim {
namespace {

int find_arg(const BoundKernel& b, int value, bool written) {
  for (size_t i = 0; i < b.values.size(); ++i)
    if (b.values[i] == value && b.kernel.args[i].written == written) return static_cast<int>(i);
  return -1;
}

int add_arg(BoundKernel& b, const KernelArg& arg, int value) {
  const int known = find_arg(b, value, arg.written);
  if (known >= 0) return known;
  b.kernel.args.push_back(arg);
  b.values.push_back(value);
  return static_cast<int>(b.values.size()) - 1;
}

const Store* store_of(const Kernel& k, int arg) {
  const Store* found = nullptr;
  for (const Store& s : k.stores) {
    if (s.access.arg != arg) continue;
    if (found || s.accumulate) return nullptr;
    found = &s;
  }
  return found;
}

// Copies a producer's expressions into another kernel whose indices the producer's are functions of.
class Substitution {
 public:
  // `map[d]` is dimension d of `from` in indices of `into`; `args` renames arguments.
  Substitution(const Kernel& from, Kernel& into, std::vector<MappedIndex> map, std::vector<int> args)
      : from_(from), into_(into), map_(std::move(map)), args_(std::move(args)), done_(from.exprs.size(), -1) {}

  bool ok() const { return ok_; }
  void replace(int32_t expr, int32_t with) { done_[static_cast<size_t>(expr)] = with; }

  int32_t expression(int32_t id) {
    if (!ok_) return 0;
    if (done_[static_cast<size_t>(id)] >= 0) return done_[static_cast<size_t>(id)];
    Expr e = from_.exprs[static_cast<size_t>(id)];
    for (int n = 0; n < expr_arity(e.op); ++n) e.in[static_cast<size_t>(n)] = expression(e.in[static_cast<size_t>(n)]);
    if (e.op == ExprOp::load) e.integer = load(from_.accesses[static_cast<size_t>(e.integer)]);
    const int32_t result = e.op == ExprOp::index ? index(static_cast<size_t>(e.integer)) : add(e);
    return done_[static_cast<size_t>(id)] = result;
  }

  Access access(const Access& a) {
    Access out;
    out.arg = args_[static_cast<size_t>(a.arg)];
    out.offset = a.offset;
    const size_t rank = rank_of(into_);
    out.strides.assign(rank, 0);
    for (size_t d = 0; d < a.strides.size(); ++d) {
      const int64_t stride = a.strides[d];
      if (stride == 0) continue;
      const MappedIndex& m = map_[d];
      if (m.term >= 0)
        out.terms.push_back({index(d), stride, from_.space[d]});
      else if (m.guarded)
        out.guards.push_back({m.coeffs, m.offset, from_.space[d], stride});
      else {
        out.offset += stride * m.offset;
        for (size_t i = 0; i < rank; ++i) out.strides[i] += stride * m.coeffs[i];
      }
    }
    for (const Guard& g : a.guards) {
      Guard composed{std::vector<int64_t>(rank, 0), g.offset, g.limit, g.stride};
      for (size_t d = 0; d < g.coeffs.size(); ++d) {
        if (g.coeffs[d] == 0) continue;
        if (map_[d].term >= 0) ok_ = false;
        composed.offset += g.coeffs[d] * map_[d].offset;
        for (size_t i = 0; i < rank; ++i) composed.coeffs[i] += g.coeffs[d] * map_[d].coeffs[i];
      }
      out.guards.push_back(std::move(composed));
    }
    for (const IndexTerm& t : a.terms) {
      // A computed index under a guard could be any number where the guard does not hold, and trap.
      if (std::any_of(map_.begin(), map_.end(), [](const MappedIndex& m) { return m.guarded; })) ok_ = false;
      out.terms.push_back({expression(t.expr), t.stride, t.extent});
    }
    return out;
  }

 private:
  static size_t rank_of(const Kernel& k) { return k.space.size(); }

  int32_t add(const Expr& e) { return add_expr(into_, e); }

  int64_t load(const Access& a) {
    Access composed = access(a);
    const auto same = composed.terms.empty() ? std::find(into_.accesses.begin(), into_.accesses.end(), composed)
                                             : into_.accesses.end();
    if (same != into_.accesses.end()) return same - into_.accesses.begin();
    into_.accesses.push_back(std::move(composed));
    return static_cast<int64_t>(into_.accesses.size()) - 1;
  }

  int32_t integer(int64_t value) {
    Expr e{.op = ExprOp::constant, .type = Scalar::i64};
    e.integer = value;
    return add(e);
  }
  int32_t binary(ExprOp op, int32_t a, int32_t b) {
    Expr e{.op = op, .type = Scalar::i64};
    e.in = {a, b, -1};
    return add(e);
  }
  int32_t scaled(int32_t x, int64_t by) { return by == 1 ? x : binary(ExprOp::mul, x, integer(by)); }

  int32_t index(size_t d) {
    const MappedIndex& m = map_[d];
    int32_t sum = -1;
    auto plus = [&](int32_t x) { sum = sum < 0 ? x : binary(ExprOp::add, sum, x); };
    for (size_t i = 0; i < m.coeffs.size(); ++i) {
      if (m.coeffs[i] == 0) continue;
      Expr e{.op = ExprOp::index, .type = Scalar::i64};
      e.integer = static_cast<int64_t>(i);
      plus(scaled(add(e), m.coeffs[i]));
    }
    if (m.term >= 0) plus(scaled(m.term, m.term_scale));
    if (m.offset != 0 || sum < 0) plus(integer(m.offset));
    return sum;
  }

  const Kernel& from_;
  Kernel& into_;
  std::vector<MappedIndex> map_;
  std::vector<int> args_;
  std::vector<int32_t> done_;
  bool ok_ = true;
};

bool same_map(const MappedIndex& a, const MappedIndex& b) {
  return a.coeffs == b.coeffs && a.offset == b.offset && a.guarded == b.guarded && a.term == b.term &&
         a.term_scale == b.term_scale;
}

// The value's bits as its buffer would hold them: integers wrap, floats are rounded only under strict numerics.
int32_t through_dtype(Kernel& k, int32_t expr, DType dtype, bool strict) {
  const Scalar type = scalar_of(dtype);
  if (k.exprs[static_cast<size_t>(expr)].type != type) {
    Expr e{.op = ExprOp::cast, .type = type};
    e.in[0] = expr;
    expr = add_expr(k, e);
  }
  const bool narrow = dtype != DType::i64 && dtype != DType::boolean && dtype != DType::f32 && dtype != DType::f64;
  if (narrow && (!is_float(dtype) || strict)) {
    Expr e{.op = ExprOp::round_to, .type = type, .dtype = dtype};
    e.in[0] = expr;
    expr = add_expr(k, e);
  }
  return expr;
}

// Splits the consumer until every access of `arg` maps onto the producer's stored dimensions.
bool split_until_mapped(Kernel& consumer, int arg, const StoredDims& stored) {
  for (int rounds = 0; rounds < 64; ++rounds) {
    std::optional<SplitRequest> split;
    auto try_access = [&](const Access& a, const std::vector<int64_t>& extents) {
      if (a.arg != arg || split) return true;
      return map_access(a, extents, stored, split).has_value() || split.has_value();
    };
    for (const Access& a : consumer.accesses)
      if (!try_access(a, consumer.space)) return false;
    if (consumer.contraction) {
      if (consumer.contraction->kind == ContractionKind::attention) {
        // Only its epilogue takes part.
        if (consumer.contraction->b.arg == arg) return false;
      } else {
        std::vector<int64_t> extents = consumer.space;
        extents.insert(extents.end(), consumer.contraction->reduce.begin(), consumer.contraction->reduce.end());
        if (!try_access(consumer.contraction->a, extents) || !try_access(consumer.contraction->b, extents))
          return false;
      }
    }
    if (!split) return true;
    if (consumer.contraction && consumer.contraction->kind != ContractionKind::matmul) return false;
    // A scan runs along one dimension.
    const bool row = split->dim + static_cast<size_t>(consumer.row_dims) >= consumer.space.size();
    if (row &&
        std::any_of(consumer.exprs.begin(), consumer.exprs.end(), [](const Expr& e) { return e.op == ExprOp::scan; }))
      return false;
    split_dim(consumer, split->dim, split->inner);
  }
  return false;
}

// A copy's stored dimensions split where guarded coordinates of `arg` run within one: [hw] becomes [h, w] for a window.
void split_at_guards(BoundKernel& producer, int out_arg, const Kernel& consumer, int arg) {
  auto visit = [&](const Access& a) {
    if (a.arg != arg) return;
    for (const Guard& g : a.guards) {
      const Store* store = store_of(producer.kernel, out_arg);
      const auto stored =
          stored_dims(producer.kernel, store->access, producer.kernel.args[static_cast<size_t>(out_arg)].elements);
      if (!stored) return;
      for (size_t i = 0; i < stored->dims.size(); ++i) {
        if (stored->strides[i] >= g.stride) continue;
        const int64_t q = g.stride / stored->strides[i];
        if (g.stride % stored->strides[i] == 0 && q < stored->extents[i] && stored->extents[i] % q == 0)
          split_dim(producer.kernel, stored->dims[i], q);
        break;
      }
    }
  };
  for (const Access& a : consumer.accesses) visit(a);
  if (!consumer.contraction || consumer.contraction->kind == ContractionKind::attention) return;
  visit(consumer.contraction->a);
  visit(consumer.contraction->b);
}

// Whether every guard of an operand is a stored dimension of its own: outside it the operand is 0, which a guard on
// several dimensions at once could not say.
bool guards_are_exact(const Access& access, const StoredDims& stored, const std::vector<MappedIndex>& map) {
  for (const Guard& g : access.guards) {
    bool exact = false;
    for (size_t i = 0; i < map.size(); ++i)
      exact = exact || (map[i].guarded && g.stride == stored.strides[i] && g.limit == stored.extents[i] &&
                        map[i].offset == g.offset && map[i].coeffs == g.coeffs);
    if (!exact) return false;
  }
  return true;
}

// Moves the dimensions `row` (in this order) behind all others and makes them the row.
void make_row(Kernel& k, const std::vector<size_t>& row) {
  std::vector<size_t> order;
  for (size_t d = 0; d < k.space.size(); ++d)
    if (std::find(row.begin(), row.end(), d) == row.end()) order.push_back(d);
  order.insert(order.end(), row.begin(), row.end());
  permute_dims(k, order);
  k.row_dims = static_cast<int>(row.size());
}

// Which dimensions of the consumer serve as the producer's row. Empty extents: none is needed.
std::optional<std::vector<size_t>> match_row(const Kernel& consumer, const Kernel& producer, const StoredDims& stored,
                                             const std::vector<MappedIndex>& map, bool& append) {
  append = false;
  const size_t outer_p = producer.space.size() - static_cast<size_t>(producer.row_dims);
  std::vector<size_t> row;
  std::vector<bool> used(consumer.space.size(), false);  // indices the producer's outer dimensions depend on
  for (size_t i = 0; i < stored.dims.size(); ++i) {
    if (stored.dims[i] >= outer_p) continue;
    for (size_t d = 0; d < used.size(); ++d) used[d] = used[d] || map[i].coeffs[d] != 0;
  }
  const size_t outer_c = consumer.space.size() - static_cast<size_t>(consumer.row_dims);
  std::vector<int64_t> wanted(producer.space.begin() + static_cast<std::ptrdiff_t>(outer_p), producer.space.end());
  const bool varies = std::any_of(stored.dims.begin(), stored.dims.end(), [&](size_t d) { return d >= outer_p; });
  if (varies) {  // the stored value differs along the row: its dimensions map one to one
    row.assign(wanted.size(), consumer.space.size());
    for (size_t i = 0; i < stored.dims.size(); ++i) {
      if (stored.dims[i] < outer_p) continue;
      const MappedIndex& m = map[i];
      if (m.guarded || m.term >= 0 || m.offset != 0) return std::nullopt;
      for (size_t d = 0; d < m.coeffs.size(); ++d) {
        if (m.coeffs[d] == 0) continue;
        size_t& slot = row[stored.dims[i] - outer_p];
        if (m.coeffs[d] != 1 || slot != consumer.space.size() || consumer.space[d] != stored.extents[i] || used[d])
          return std::nullopt;
        slot = d;
      }
    }
    for (size_t j = 0; j < row.size(); ++j)
      if (row[j] == consumer.space.size()) return std::nullopt;
  } else if (consumer.row_dims > 0) {
    for (size_t d = outer_c; d < consumer.space.size(); ++d) row.push_back(d);
    if (row.size() != wanted.size()) return std::nullopt;
    for (size_t j = 0; j < row.size(); ++j)
      if (consumer.space[row[j]] != wanted[j] || used[row[j]]) return std::nullopt;
  } else {
    // The last free dimensions of the right extents; none at all: the consumer becomes the reduction's epilogue.
    size_t d = consumer.space.size();
    for (size_t j = wanted.size(); j-- > 0;) {
      while (d > 0 && (used[d - 1] || consumer.space[d - 1] != wanted[j])) --d;
      if (d == 0) {
        append = true;
        return std::vector<size_t>{};
      }
      row.insert(row.begin(), --d);
    }
  }
  if (consumer.row_dims > 0) {
    std::vector<size_t> own;
    for (size_t d = outer_c; d < consumer.space.size(); ++d) own.push_back(d);
    if (own != row) return std::nullopt;
  }
  return row;
}

// Appends the producer's row dimensions to a consumer that has none: all it computes is the same along the row.
void append_row(Kernel& k, const std::vector<int64_t>& extents) {
  const size_t count = extents.size();
  k.space.insert(k.space.end(), extents.begin(), extents.end());
  k.row_dims = static_cast<int>(count);
  auto widen = [&](Access& a) {
    a.strides.resize(a.strides.size() + count, 0);
    for (Guard& g : a.guards) g.coeffs.resize(g.coeffs.size() + count, 0);
  };
  for (Access& a : k.accesses) widen(a);
  for (Store& s : k.stores) widen(s.access);
}

int64_t product(const std::vector<int64_t>& v, size_t begin, size_t end) {
  int64_t p = 1;
  for (size_t i = begin; i < end; ++i) p *= v[i];
  return p;
}

// Into a contraction's operands go only copies: their addresses compose.
bool compose_operands(BoundKernel& out, const BoundKernel& producer, int arg, const StoredDims& stored) {
  Kernel& k = out.kernel;
  auto c = std::make_shared<Contraction>(*k.contraction);
  std::vector<int64_t> extents = k.space;
  extents.insert(extents.end(), c->reduce.begin(), c->reduce.end());
  bool touched = false;
  for (Access* operand : {&c->a, &c->b}) {
    if (operand->arg != arg) continue;
    if (!is_copy(producer.kernel)) return false;
    std::optional<SplitRequest> split;
    auto map = map_access(*operand, extents, stored, split);
    if (!map || !guards_are_exact(*operand, stored, *map)) return false;
    std::vector<MappedIndex> full(producer.kernel.space.size());
    for (MappedIndex& m : full) m.coeffs.assign(extents.size(), 0);
    for (size_t i = 0; i < stored.dims.size(); ++i) full[stored.dims[i]] = (*map)[i];
    const Access& source = producer.kernel.accesses[0];
    Kernel wide;  // carries the rank space ++ reduce for the composition
    wide.space = extents;
    const int renamed = add_arg(out, producer.kernel.args[static_cast<size_t>(source.arg)],
                                producer.values[static_cast<size_t>(source.arg)]);
    std::vector<int> args(producer.kernel.args.size(), -1);
    args[static_cast<size_t>(source.arg)] = renamed;
    Substitution s(producer.kernel, wide, std::move(full), args);
    const size_t guards = operand->guards.size();
    *operand = s.access(source);
    if (!s.ok() || operand->guards.size() != guards) return false;
    touched = true;
  }
  if (touched) k.contraction = c;
  return true;
}

}  // namespace

std::optional<BoundKernel> inline_value(const BoundKernel& consumer, const BoundKernel& given_producer, int value,
                                        bool aligned, const FuseOptions& options) {
  const int arg = find_arg(consumer, value, false);
  const int out_arg = find_arg(given_producer, value, true);
  if (arg < 0 || out_arg < 0 || given_producer.kernel.contraction) return std::nullopt;
  BoundKernel producer = given_producer;
  if (store_of(producer.kernel, out_arg) && is_copy(producer.kernel))
    split_at_guards(producer, out_arg, consumer.kernel, arg);
  if (producer.kernel.args[static_cast<size_t>(out_arg)].updates >= 0) return std::nullopt;
  for (const KernelArg& a : consumer.kernel.args)
    if (a.updates == arg) return std::nullopt;  // it needs the buffer itself
  const Store* store = store_of(producer.kernel, out_arg);
  if (!store) return std::nullopt;
  const auto stored =
      stored_dims(producer.kernel, store->access, producer.kernel.args[static_cast<size_t>(out_arg)].elements);
  if (!stored) return std::nullopt;

  BoundKernel out = consumer;
  Kernel& k = out.kernel;
  if (!split_until_mapped(k, arg, *stored)) return std::nullopt;

  const auto loads = [&] {
    std::vector<size_t> found;
    for (size_t i = 0; i < k.accesses.size(); ++i)
      if (k.accesses[i].arg == arg) found.push_back(i);
    return found;
  }();
  std::optional<SplitRequest> split;
  const size_t row_p = static_cast<size_t>(producer.kernel.row_dims);
  const size_t outer_p = producer.kernel.space.size() - row_p;
  std::vector<size_t> row;
  if (row_p > 0) {
    if (k.contraction || loads.empty()) return std::nullopt;
    auto map = map_access(k.accesses[loads[0]], k.space, *stored, split);
    bool append = false;
    auto matched = match_row(k, producer.kernel, *stored, *map, append);
    if (!matched) return std::nullopt;
    if (append) {
      if (k.row_dims > 0) return std::nullopt;
      const size_t first = k.space.size();
      append_row(k,
                 {producer.kernel.space.begin() + static_cast<std::ptrdiff_t>(outer_p), producer.kernel.space.end()});
      for (size_t j = 0; j < row_p; ++j) row.push_back(first + j);
    } else {
      make_row(k, *matched);
      for (size_t j = 0; j < row_p; ++j) row.push_back(k.space.size() - row_p + j);
    }
    // A reduction is computed once per outer point: no more of them than the producer had.
    if (product(k.space, 0, k.space.size() - row_p) != product(producer.kernel.space, 0, outer_p)) return std::nullopt;
  } else if (aligned &&
             product(k.space, 0, k.space.size()) != product(producer.kernel.space, 0, producer.kernel.space.size())) {
    return std::nullopt;
  }

  if (k.contraction && !compose_operands(out, producer, arg, *stored)) return std::nullopt;

  std::vector<int> args(producer.kernel.args.size(), -1);
  for (size_t i = 0; i < args.size(); ++i)
    if (!producer.kernel.args[i].written) args[i] = add_arg(out, producer.kernel.args[i], producer.values[i]);

  std::vector<int32_t> replaced(k.accesses.size(), -1);
  const std::vector<Expr> old = std::move(k.exprs);
  k.exprs.clear();
  const DType dtype = producer.kernel.args[static_cast<size_t>(out_arg)].dtype;
  std::vector<int32_t> renamed(old.size(), -1);
  std::optional<std::vector<MappedIndex>> last_map;
  bool ok = true;
  auto rename_terms = [&](Access& a) {
    for (IndexTerm& t : a.terms) t.expr = renamed[static_cast<size_t>(t.expr)];
  };
  std::vector<bool> access_done(k.accesses.size(), false);
  for (size_t i = 0; i < old.size() && ok; ++i) {
    Expr e = old[i];
    for (int n = 0; n < expr_arity(e.op); ++n) {
      auto& in = e.in[static_cast<size_t>(n)];
      in = renamed[static_cast<size_t>(in)];
    }
    if (e.op == ExprOp::load) {
      const auto at = static_cast<size_t>(e.integer);
      if (!access_done[at]) {
        rename_terms(k.accesses[at]);
        access_done[at] = true;
      }
      if (k.accesses[at].arg == arg) {
        if (replaced[at] < 0) {
          auto map = map_access(k.accesses[at], k.space, *stored, split);
          if (!map) return std::nullopt;
          std::vector<MappedIndex> full(producer.kernel.space.size());
          for (MappedIndex& m : full) m.coeffs.assign(k.space.size(), 0);
          for (size_t j = 0; j < stored->dims.size(); ++j) full[stored->dims[j]] = (*map)[j];
          for (size_t j = 0; j < row_p; ++j) {
            MappedIndex& m = full[outer_p + j];
            const bool own = std::any_of(m.coeffs.begin(), m.coeffs.end(), [](int64_t c) { return c != 0; });
            if (own) continue;
            m.coeffs[row[j]] = 1;
          }
          if (row_p > 0) {  // every access must see the same row and outer point
            for (const MappedIndex& m : full)
              if (m.guarded || m.term >= 0) return std::nullopt;
            if (last_map && !std::equal(full.begin(), full.end(), last_map->begin(), same_map)) return std::nullopt;
            last_map = full;
          }
          const Access access_copy = k.accesses[at];
          Substitution s(producer.kernel, k, std::move(full), args);
          int32_t x = s.expression(store->expr);
          if (!s.ok()) return std::nullopt;
          x = through_dtype(k, x, dtype, options.strict);
          replaced[at] = x;
        }
        int32_t x = replaced[at];
        if (k.exprs[static_cast<size_t>(x)].type != e.type) {
          Expr cast{.op = ExprOp::cast, .type = e.type};
          cast.in[0] = x;
          x = add_expr(k, cast);
        }
        renamed[i] = x;
        continue;
      }
    }
    renamed[i] = add_expr(k, e);
  }
  for (Store& s : k.stores) {
    s.expr = renamed[static_cast<size_t>(s.expr)];
    rename_terms(s.access);
  }
  order_args(out);
  simplify(out);
  return out;
}

std::optional<BoundKernel> append_consumer(const BoundKernel& producer, const BoundKernel& consumer, int value,
                                           bool keep, const FuseOptions& options) {
  const int arg = find_arg(consumer, value, false);
  const int out_arg = find_arg(producer, value, true);
  if (arg < 0 || out_arg < 0 || consumer.kernel.contraction || consumer.kernel.row_dims || producer.kernel.row_dims)
    return std::nullopt;
  for (const KernelArg& a : consumer.kernel.args)
    if (a.updates == arg) return std::nullopt;
  BoundKernel out = producer;
  BoundKernel tail = consumer;
  Kernel& p = out.kernel;
  const bool splittable = !p.contraction || p.contraction->kind == ContractionKind::matmul;
  std::vector<MappedIndex> inverse;
  for (int rounds = 0;; ++rounds) {
    if (rounds > 64) return std::nullopt;
    const Store* store = store_of(p, out_arg);
    if (!store) return std::nullopt;
    const auto stored = stored_dims(p, store->access, p.args[static_cast<size_t>(out_arg)].elements);
    if (!stored || !split_until_mapped(tail.kernel, arg, *stored)) return std::nullopt;
    if (product(tail.kernel.space, 0, tail.kernel.space.size()) != product(p.space, 0, p.space.size()))
      return std::nullopt;
    std::optional<std::vector<MappedIndex>> map;
    for (const Access& a : tail.kernel.accesses) {
      if (a.arg != arg) continue;
      std::optional<SplitRequest> split;
      auto found = map_access(a, tail.kernel.space, *stored, split);
      if (!found || (map && !std::equal(map->begin(), map->end(), found->begin(), same_map))) return std::nullopt;
      map = found;
    }
    if (!map) return std::nullopt;
    // Every stored dimension must be exactly one index of the consumer; where it is several, it is split first.
    inverse.assign(tail.kernel.space.size(), {});
    for (MappedIndex& m : inverse) m.coeffs.assign(p.space.size(), 0);
    std::vector<bool> reached(tail.kernel.space.size(), false);
    std::optional<SplitRequest> split_p;
    for (size_t i = 0; i < map->size() && !split_p; ++i) {
      const MappedIndex& m = (*map)[i];
      if (m.guarded || m.term >= 0 || m.offset != 0) return std::nullopt;
      int64_t smallest = 0;
      size_t at = 0, count = 0;
      for (size_t d = 0; d < m.coeffs.size(); ++d) {
        if (m.coeffs[d] == 0) continue;
        if (m.coeffs[d] < 0) return std::nullopt;
        if (reached[d]) return std::nullopt;
        ++count;
        if (smallest == 0 || m.coeffs[d] < smallest) {
          smallest = m.coeffs[d];
          at = d;
        }
      }
      if (count == 0 || smallest != 1) return std::nullopt;
      if (tail.kernel.space[at] != stored->extents[i]) {
        if (count < 2 || stored->extents[i] % tail.kernel.space[at] != 0 || !splittable) return std::nullopt;
        split_p = SplitRequest{stored->dims[i], tail.kernel.space[at]};
      } else {
        if (count != 1) return std::nullopt;
        reached[at] = true;
        inverse[at].coeffs[stored->dims[i]] = 1;
      }
    }
    if (split_p) {
      split_dim(p, split_p->dim, split_p->inner);
      continue;
    }
    for (size_t d = 0; d < reached.size(); ++d)
      if (!reached[d] && tail.kernel.space[d] != 1) return std::nullopt;
    break;
  }

  const Store store = *store_of(p, out_arg);
  std::vector<int> args(tail.kernel.args.size(), -1);
  for (size_t i = 0; i < args.size(); ++i) {
    if (static_cast<int>(i) == arg) continue;
    KernelArg copy = tail.kernel.args[i];
    if (copy.updates >= 0) copy.updates = args[static_cast<size_t>(copy.updates)];
    args[i] = add_arg(out, copy, tail.values[i]);
  }
  Substitution s(tail.kernel, p, std::move(inverse), args);
  const int32_t x = through_dtype(p, store.expr, p.args[static_cast<size_t>(out_arg)].dtype, options.strict);
  for (size_t i = 0; i < tail.kernel.exprs.size(); ++i) {
    const Expr& e = tail.kernel.exprs[i];
    if (e.op != ExprOp::load || tail.kernel.accesses[static_cast<size_t>(e.integer)].arg != arg) continue;
    int32_t y = x;
    if (p.exprs[static_cast<size_t>(y)].type != e.type) {
      Expr cast{.op = ExprOp::cast, .type = e.type};
      cast.in[0] = y;
      y = add_expr(p, cast);
    }
    s.replace(static_cast<int32_t>(i), y);
  }
  if (!keep) std::erase_if(p.stores, [&](const Store& st) { return st.access.arg == out_arg; });
  for (const Store& st : tail.kernel.stores) {
    const int32_t expr = s.expression(st.expr);
    p.stores.push_back({s.access(st.access), expr, st.accumulate});
  }
  if (!s.ok()) return std::nullopt;
  order_args(out);
  simplify(out);
  return out;
}

}  // namespace npusim
