// Writing one kernel's expressions and accesses into another.
#include "kernel/fuse/substitute.h"

#include <algorithm>

#include "kernel/fuse/simplify.h"

namespace npusim {

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

Substitution::Substitution(const Kernel& from, Kernel& into, std::vector<MappedIndex> map, std::vector<int> args)
    : from_(from),
      into_(into),
      map_(std::move(map)),
      args_(std::move(args)),
      done_(from.exprs.size(), -1),
      trapped_(map_.size()) {}

bool Substitution::traps() const {
  for (size_t d = 0; d < map_.size(); ++d)
    if (map_[d].term >= 0 && !trapped_[d]) return false;
  return true;
}

int32_t Substitution::expression(int32_t id) {
  if (!ok_) return 0;
  if (done_[static_cast<size_t>(id)] >= 0) return done_[static_cast<size_t>(id)];
  Expr e = from_.exprs[static_cast<size_t>(id)];
  for (int n = 0; n < expr_arity(e.op); ++n) e.in[static_cast<size_t>(n)] = expression(e.in[static_cast<size_t>(n)]);
  if (e.op == ExprOp::load) e.integer = load(from_.accesses[static_cast<size_t>(e.integer)]);
  const int32_t result = e.op == ExprOp::index ? index(static_cast<size_t>(e.integer)) : add_expr(into_, e);
  return done_[static_cast<size_t>(id)] = result;
}

Access Substitution::access(const Access& a) {
  Access out;
  out.arg = args_[static_cast<size_t>(a.arg)];
  out.offset = a.offset;
  const size_t rank = into_.space.size();
  out.strides.assign(rank, 0);
  for (size_t d = 0; d < a.strides.size(); ++d) {
    const int64_t stride = a.strides[d];
    if (stride == 0) continue;
    const MappedIndex& m = map_[d];
    if (m.term >= 0) {
      out.terms.push_back({m.term, stride * m.term_scale, m.term_extent});
      trapped_[d] = true;
      if (m.guarded) ok_ = false;
    }
    if (m.guarded) {
      out.guards.push_back({m.coeffs, m.offset, from_.space[d], stride});
    } else {
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

int64_t Substitution::load(const Access& a) {
  Access composed = access(a);
  const auto same =
      composed.terms.empty() ? std::find(into_.accesses.begin(), into_.accesses.end(), composed) : into_.accesses.end();
  if (same != into_.accesses.end()) return same - into_.accesses.begin();
  into_.accesses.push_back(std::move(composed));
  return static_cast<int64_t>(into_.accesses.size()) - 1;
}

int32_t Substitution::integer(int64_t value) {
  Expr e{.op = ExprOp::constant, .type = Scalar::i64};
  e.integer = value;
  return add_expr(into_, e);
}
int32_t Substitution::binary(ExprOp op, int32_t a, int32_t b) {
  Expr e{.op = op, .type = Scalar::i64};
  e.in = {a, b, -1};
  return add_expr(into_, e);
}
int32_t Substitution::scaled(int32_t x, int64_t by) { return by == 1 ? x : binary(ExprOp::mul, x, integer(by)); }

int32_t Substitution::index(size_t d) {
  const MappedIndex& m = map_[d];
  int32_t sum = -1;
  auto plus = [&](int32_t x) { sum = sum < 0 ? x : binary(ExprOp::add, sum, x); };
  for (size_t i = 0; i < m.coeffs.size(); ++i) {
    if (m.coeffs[i] == 0) continue;
    Expr e{.op = ExprOp::index, .type = Scalar::i64};
    e.integer = static_cast<int64_t>(i);
    plus(scaled(add_expr(into_, e), m.coeffs[i]));
  }
  if (m.term >= 0) plus(scaled(m.term, m.term_scale));
  if (m.offset != 0 || sum < 0) plus(integer(m.offset));
  return sum;
}

bool same_map(const std::vector<MappedIndex>& a, const std::vector<MappedIndex>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const MappedIndex& x, const MappedIndex& y) {
    return x.coeffs == y.coeffs && x.offset == y.offset && x.guarded == y.guarded && x.term == y.term &&
           x.term_scale == y.term_scale;
  });
}

int32_t cast_to(Kernel& k, int32_t expr, Scalar type) {
  if (k.exprs[static_cast<size_t>(expr)].type == type) return expr;
  Expr e{.op = ExprOp::cast, .type = type};
  e.in[0] = expr;
  return add_expr(k, e);
}

int32_t through_dtype(Kernel& k, int32_t expr, DType dtype, bool strict) {
  const Scalar type = scalar_of(dtype);
  expr = cast_to(k, expr, type);
  const bool narrow = dtype != DType::i64 && dtype != DType::boolean && dtype != DType::f32 && dtype != DType::f64;
  if (!narrow || (is_float(dtype) && !strict)) return expr;
  Expr e{.op = ExprOp::round_to, .type = type, .dtype = dtype};
  e.in[0] = expr;
  return add_expr(k, e);
}

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
    if (!may_split(consumer, split->dim)) return false;
    split_dim(consumer, split->dim, split->inner);
  }
  return false;
}

int64_t points(const std::vector<int64_t>& extents, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < std::min(end, extents.size()); ++i) count *= extents[i];
  return count;
}

}  // namespace npusim
