// Folding of constants, and of conditions that hold or fail everywhere in a box.
#include "backends/cpu/loops/rewrite/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "backends/cpu/loops/rewrite/search.h"
#include "base/error.h"
#include "kernel/evaluate.h"
#include "kernel/facts/range.h"
#include "kernel/facts/visit.h"

namespace npusim::cpu::loops::rewrite {
namespace {

constexpr int64_t largest_linear = int64_t{1} << 40;  // linear forms beyond it are not followed

IndexForm combine(const IndexForm& a, int64_t scale, const IndexForm& b) {
  IndexForm f = a;
  f.offset += scale * b.offset;
  for (size_t d = 0; d < f.coeffs.size(); ++d) f.coeffs[d] += scale * b.coeffs[d];
  return f;
}
bool small(const IndexForm& f) {
  return std::abs(f.offset) < largest_linear &&
         std::all_of(f.coeffs.begin(), f.coeffs.end(), [](int64_t c) { return std::abs(c) < largest_linear; });
}

// Rebuilds a kernel over the box [begin, begin + extents), folding as it goes.
class Folder {
 public:
  Folder(const Kernel& from, const std::vector<int64_t>& begin, const std::vector<int64_t>& extents)
      : from_(from), begin_(begin), map_(from.exprs.size(), -1) {
    out_ = from;
    out_.space = extents;
    out_.exprs.clear();
    out_.accesses.clear();
  }

  Kernel run() {
    for (size_t i = 0; i < from_.exprs.size(); ++i) map_[i] = expression(from_.exprs[i]);
    out_.stores.clear();
    for (const Store& s : from_.stores) {
      Store store{access(s.access), map_[static_cast<size_t>(s.expr)], s.accumulate, s.reduction};
      const Scalar type = scalar_of(out_.args[static_cast<size_t>(s.access.arg)].dtype);
      if (expr(store.expr).type != type)
        store.expr = add({.op = ExprOp::cast, .type = type, .in = {store.expr, -1, -1}});
      if (!never_) out_.stores.push_back(std::move(store));
    }
    return std::move(out_);
  }

  // The conditions "f >= 0" that were met, over the new space.
  const std::vector<IndexForm>& conditions() const { return conditions_; }

 private:
  const Expr& expr(int32_t i) const { return out_.exprs[static_cast<size_t>(i)]; }
  bool constant(int32_t i) const { return i >= 0 && expr(i).op == ExprOp::constant; }
  const std::optional<IndexForm>& linear(int32_t i) const { return linear_[static_cast<size_t>(i)]; }

  IndexForm fixed(int64_t value) const { return {std::vector<int64_t>(out_.space.size(), 0), value}; }

  int32_t add(const Expr& e) {
    const auto next = static_cast<int32_t>(out_.exprs.size());
    if (e.op == ExprOp::constant) {
      const auto [known, fresh] = constants_.try_emplace({e.type, std::bit_cast<uint64_t>(e.number), e.integer}, next);
      if (!fresh) return known->second;
    }
    out_.exprs.push_back(e);
    linear_.push_back(linear_form(e));
    bool requires_one = e.op == ExprOp::require;
    for_each_operand(out_, e,
                     [&](int32_t operand) { requires_one = requires_one || requires_[static_cast<size_t>(operand)]; });
    requires_.push_back(requires_one);
    return next;
  }
  int32_t integer(int64_t value, Scalar type) {
    Expr e{.op = ExprOp::constant, .type = type};
    if (type < Scalar::f32)
      e.integer = value;
    else
      e.number = static_cast<double>(value);
    return add(e);
  }
  int32_t number(double value, Scalar type) {
    Expr e{.op = ExprOp::constant, .type = type};
    e.number = value;
    return add(e);
  }
  int32_t op(ExprOp op, Scalar type, int32_t a, int32_t b = -1, int32_t c = -1) {
    Expr e{.op = op, .type = type};
    e.in = {a, b, c};
    return add(e);
  }

  std::optional<IndexForm> linear_form(const Expr& e) const {
    if (e.type != Scalar::i64) return std::nullopt;
    if (e.op == ExprOp::constant)
      return std::abs(e.integer) < largest_linear ? std::optional(fixed(e.integer)) : std::nullopt;
    if (e.op == ExprOp::index) {
      IndexForm f = fixed(0);
      f.coeffs[static_cast<size_t>(e.integer)] = 1;
      return f;
    }
    if (e.op != ExprOp::add && e.op != ExprOp::sub && e.op != ExprOp::mul && e.op != ExprOp::neg) return std::nullopt;
    const auto& a = linear(e.in[0]);
    if (!a) return std::nullopt;
    IndexForm f;
    if (e.op == ExprOp::neg) {
      f = combine(fixed(0), -1, *a);
    } else {
      const auto& b = linear(e.in[1]);
      if (!b) return std::nullopt;
      if (e.op == ExprOp::mul) {
        if (constant(e.in[1]))
          f = combine(fixed(0), b->offset, *a);
        else if (constant(e.in[0]))
          f = combine(fixed(0), a->offset, *b);
        else
          return std::nullopt;
      } else {
        f = combine(*a, e.op == ExprOp::add ? 1 : -1, *b);
      }
    }
    return small(f) ? std::optional(f) : std::nullopt;
  }

  // f >= 0 over the whole box, if it is the same everywhere.
  std::optional<bool> decide(const IndexForm& f) {
    const auto r = range_of(f.offset, f.coeffs, out_.space);
    if (!r) return std::nullopt;
    if (r->low >= 0) return true;
    if (r->high < 0) return false;
    conditions_.push_back(f);
    return std::nullopt;
  }

  std::optional<bool> comparison(const Expr& e) {
    if (expr(e.in[0]).type != Scalar::i64 || !linear(e.in[0]) || !linear(e.in[1])) return std::nullopt;
    IndexForm f = combine(*linear(e.in[1]), -1, *linear(e.in[0]));  // b − a
    if (e.op == ExprOp::le) return decide(f);
    if (e.op == ExprOp::lt) {
      f.offset -= 1;
      return decide(f);
    }
    const auto not_less = decide(f), not_more = decide(combine(fixed(0), -1, f));
    if (not_less && not_more && *not_less && *not_more) return e.op == ExprOp::eq;
    if ((not_less && !*not_less) || (not_more && !*not_more)) return e.op == ExprOp::ne;
    return std::nullopt;
  }

  // The operand that an extreme of two affine values is everywhere.
  int32_t extreme(const Expr& e) {
    const int32_t a = e.in[0], b = e.in[1];
    if (!linear(a) || !linear(b)) return add(e);
    const IndexForm more = combine(*linear(b), -1, *linear(a));
    const auto first = decide(e.op == ExprOp::min ? more : combine(fixed(0), -1, more));
    return !first ? add(e) : *first ? a : b;
  }

  int32_t absolute(const Expr& e) {
    const auto& a = linear(e.in[0]);
    const auto positive = a ? decide(*a) : std::nullopt;
    return !positive ? add(e) : *positive ? e.in[0] : op(ExprOp::neg, Scalar::i64, e.in[0]);
  }

  // Quotient or rest of an affine value that is not negative, where the quotient is the same everywhere.
  int32_t division(const Expr& e) {
    constexpr int64_t most_quotients = 8;
    const auto& a = linear(e.in[0]);
    const int64_t by = constant(e.in[1]) ? expr(e.in[1]).integer : 0;
    const auto range = a ? range_of(a->offset, a->coeffs, out_.space) : std::nullopt;
    if (by <= 0 || !range || range->low < 0) return add(e);
    const int64_t first = range->low / by, last = range->high / by;
    if (first == last) {
      const int32_t quotient = integer(first, Scalar::i64);
      return e.op == ExprOp::idiv ? quotient : op(ExprOp::sub, Scalar::i64, e.in[0], integer(first * by, Scalar::i64));
    }
    for (int64_t q = first + 1; q <= last && last - first < most_quotients; ++q) {
      IndexForm from = *a;
      from.offset -= q * by;
      decide(from);
    }
    return add(e);
  }

  // Moves an access to the box; guards that always hold vanish, their strides join the address. Sets never_ when a
  // guard never holds. The term of a search is no offset in memory.
  Access access(const Access& from, bool searches = false) {
    Access a = from;
    never_ = false;
    for (size_t d = 0; d < begin_.size(); ++d) a.offset += a.strides[d] * begin_[d];
    a.guards.clear();
    for (Guard g : from.guards) {
      for (size_t d = 0; d < begin_.size(); ++d) g.offset += g.coeffs[d] * begin_[d];
      a.offset += g.stride * g.offset;
      for (size_t d = 0; d < begin_.size(); ++d) a.strides[d] += g.stride * g.coeffs[d];
      g.stride = 0;
      const IndexForm value{g.coeffs, g.offset};
      const auto above = decide(value), below = decide(combine(fixed(g.limit - 1), -1, value));
      if ((above && !*above) || (below && !*below)) never_ = true;
      if (!above || !below) a.guards.push_back(std::move(g));
    }
    a.terms.clear();
    for (IndexTerm t : from.terms) {
      t.expr = map_[static_cast<size_t>(t.expr)];
      if (searches || !as_strides(t, a)) a.terms.push_back(t);
    }
    return a;
  }

  // A term that is affine and inside of its extent everywhere joins the address.
  bool as_strides(const IndexTerm& t, Access& a) const {
    const auto& value = linear(t.expr);
    if (!value) return false;
    const auto range = range_of(value->offset, value->coeffs, out_.space);
    if (!range || range->low < 0 || range->high >= t.extent) return false;
    a.offset += t.stride * value->offset;
    for (size_t d = 0; d < a.strides.size(); ++d) a.strides[d] += t.stride * value->coeffs[d];
    return true;
  }

  int32_t load(const Expr& e) {
    Access a = access(from_.accesses[static_cast<size_t>(e.integer)], is_search(e));
    if (never_) return integer(0, e.type);
    Expr l = e;
    l.dtype = DType::f32;  // what has another one is a condition (condition.h)
    if (!is_search(e)) l.type = scalar_of(out_.args[static_cast<size_t>(a.arg)].dtype);
    l.integer = static_cast<int64_t>(out_.accesses.size());
    out_.accesses.push_back(std::move(a));
    const int32_t loaded = add(l);
    return l.type == e.type ? loaded : op(ExprOp::cast, e.type, loaded);
  }

  bool foldable(const Expr& e) const {
    if (e.op == ExprOp::reduce || e.op == ExprOp::scan || e.op == ExprOp::contraction || expr_arity(e.op) == 0)
      return false;
    for (int k = 0; k < expr_arity(e.op); ++k)
      if (!constant(e.in[static_cast<size_t>(k)])) return false;
    if (e.op == ExprOp::require) return expr(e.in[0]).integer != 0;
    return !((e.op == ExprOp::idiv || e.op == ExprOp::irem) && expr(e.in[1]).integer == 0);
  }

  // The value of an operation on constants, by the reference evaluator.
  int32_t fold(const Expr& e) {
    Kernel k;
    for (int n = 0; n < expr_arity(e.op); ++n) k.exprs.push_back(expr(e.in[static_cast<size_t>(n)]));
    Expr last = e;
    for (int n = 0; n < expr_arity(e.op); ++n) last.in[static_cast<size_t>(n)] = n;
    k.exprs.push_back(last);
    const bool floats = e.type >= Scalar::f32;
    k.args.push_back({floats ? DType::f64 : DType::i64, 1, true, -1});
    k.stores.push_back({Access{0, 0, {}, {}, {}}, static_cast<int32_t>(k.exprs.size()) - 1, false});
    double f = 0;
    int64_t i = 0;
    void* memory = floats ? static_cast<void*>(&f) : static_cast<void*>(&i);
    evaluate(k, {&memory, 1}, true);
    return floats ? number(f, e.type) : integer(e.type == Scalar::boolean ? i != 0 : i, e.type);
  }

  // x^y for exponents that products and roots give with the same special values.
  std::optional<int32_t> power(int32_t x, double y, Scalar type) {
    const auto product = [&](int32_t a, int32_t b) { return op(ExprOp::mul, type, a, b); };
    const auto root = [&] {  // pow(−0, ½) is +0, pow(−inf, ½) is +inf
      const int32_t inf = number(std::numeric_limits<double>::infinity(), type);
      const int32_t minus_inf = number(-std::numeric_limits<double>::infinity(), type);
      const int32_t r = op(ExprOp::add, type, op(ExprOp::sqrt, type, x), number(0.0, type));
      return op(ExprOp::select, type, op(ExprOp::eq, Scalar::boolean, x, minus_inf), inf, r);
    };
    const auto inverse = [&](int32_t a) { return op(ExprOp::div, type, number(1, type), a); };
    if (y == 0) return number(1, type);
    if (y == 1) return x;
    if (y == 2) return product(x, x);
    if (y == 3) return product(product(x, x), x);
    if (y == 4) return product(product(x, x), product(x, x));
    if (y == -1) return inverse(x);
    if (y == -2) return inverse(product(x, x));
    if (y == 0.5) return root();
    if (y == -0.5) return inverse(root());
    return std::nullopt;
  }

  static bool exact_reciprocal(double y) {
    int exponent = 0;
    return std::abs(std::frexp(y, &exponent)) == 0.5 && exponent > -120 && exponent < 120;
  }

  // Arithmetic on booleans, which builders do not make: through integers.
  int32_t boolean_arithmetic(const Expr& e) {
    std::array<int32_t, 3> in = e.in;
    for (int k = 0; k < expr_arity(e.op); ++k)
      in[static_cast<size_t>(k)] = op(ExprOp::cast, Scalar::i64, in[static_cast<size_t>(k)]);
    Expr wide = e;
    wide.in = in;
    wide.type = Scalar::i64;
    return op(ExprOp::cast, Scalar::boolean, add(wide));
  }

  int32_t logical(const Expr& e) {
    for (size_t k = 0; k < 2; ++k) {
      if (!constant(e.in[k])) continue;
      const bool value = expr(e.in[k]).integer != 0;
      if (value == (e.op == ExprOp::bit_or) && requires_[static_cast<size_t>(e.in[1 - k])]) continue;
      if (e.op == ExprOp::bit_and) return value ? e.in[1 - k] : e.in[k];
      if (e.op == ExprOp::bit_or) return value ? e.in[k] : e.in[1 - k];
    }
    return add(e);
  }

  int32_t integral(const Expr& e) {
    switch (e.op) {
      case ExprOp::min:
      case ExprOp::max:
        return extreme(e);
      case ExprOp::abs:
        return absolute(e);
      case ExprOp::idiv:
      case ExprOp::irem:
        return division(e);
      default:
        return add(e);
    }
  }

  int32_t expression(Expr e) {
    for (int k = 0; k < expr_arity(e.op); ++k)
      e.in[static_cast<size_t>(k)] = map_[static_cast<size_t>(e.in[static_cast<size_t>(k)])];
    const Scalar in_type = e.in[0] >= 0 ? expr(e.in[0]).type : e.type;
    if (foldable(e)) return fold(e);
    switch (e.op) {
      case ExprOp::load:
        return load(e);
      case ExprOp::contraction:
        fail(ErrorKind::internal, "loops: a kernel with a contraction");
      case ExprOp::index:
        return index(e);
      case ExprOp::eq:
      case ExprOp::ne:
      case ExprOp::lt:
      case ExprOp::le:
        if (const auto decided = comparison(e)) return integer(*decided, Scalar::boolean);
        return add(e);
      case ExprOp::logical_not:
        return in_type == Scalar::boolean ? add(e) : op(ExprOp::eq, Scalar::boolean, e.in[0], integer(0, in_type));
      case ExprOp::isnan:
        return in_type < Scalar::f32 ? integer(0, Scalar::boolean) : add(e);
      case ExprOp::select:
        if (constant(e.in[0])) return expr(e.in[0]).integer ? e.in[1] : e.in[2];
        return e.in[1] == e.in[2] && !requires_[static_cast<size_t>(e.in[0])] ? e.in[1] : add(e);
      case ExprOp::cast:
        return in_type == e.type ? e.in[0] : add(e);
      case ExprOp::round_to:
        return scalar_of(e.dtype) == e.type && stored_exactly(e.dtype) ? e.in[0] : add(e);
      case ExprOp::pow:
        if (e.type >= Scalar::f32 && constant(e.in[1]))
          if (const auto simple = power(e.in[0], expr(e.in[1]).number, e.type)) return *simple;
        return add(e);
      case ExprOp::div:
        if (constant(e.in[1]) && exact_reciprocal(expr(e.in[1]).number))
          return op(ExprOp::mul, e.type, e.in[0], number(1 / expr(e.in[1]).number, e.type));
        return add(e);
      case ExprOp::bit_and:
      case ExprOp::bit_or:
      case ExprOp::bit_xor:
        return e.type == Scalar::boolean ? logical(e) : add(e);
      case ExprOp::reduce:
      case ExprOp::scan:
      case ExprOp::require:
      case ExprOp::constant:
        return add(e);
      default:
        return e.type == Scalar::boolean ? boolean_arithmetic(e) : e.type == Scalar::i64 ? integral(e) : add(e);
    }
  }

  static bool stored_exactly(DType d) {
    return d == DType::f32 || d == DType::f64 || d == DType::i64 || d == DType::boolean;
  }

  int32_t index(Expr e) {
    const auto d = static_cast<size_t>(e.integer);
    if (out_.space[d] == 1) return integer(begin_[d], Scalar::i64);
    const int32_t i = add(e);
    return begin_[d] == 0 ? i : op(ExprOp::add, Scalar::i64, i, integer(begin_[d], Scalar::i64));
  }

  const Kernel& from_;
  const std::vector<int64_t>& begin_;
  std::vector<int32_t> map_;
  Kernel out_;
  std::map<std::tuple<Scalar, uint64_t, int64_t>, int32_t> constants_;  // by their bits: -0 is not 0
  std::vector<std::optional<IndexForm>> linear_;
  std::vector<bool> requires_;  // by expression: it, or what it is computed of, traps where something does not hold
  std::vector<IndexForm> conditions_;
  bool never_ = false;
};

}  // namespace

Kernel fold_kernel(const Kernel& from, const std::vector<int64_t>& begin, const std::vector<int64_t>& extents,
                   std::vector<IndexForm>* conditions) {
  Folder folder(from, begin, extents);
  Kernel k = folder.run();
  if (conditions) *conditions = folder.conditions();
  return k;
}

}  // namespace npusim::cpu::loops::rewrite
