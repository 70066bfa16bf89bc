// Binary searches as expressions.
#include "kernel/search.h"

#include <bit>

namespace npusim {
namespace {

bool is_of_one_term(const Access& a) { return a.guards.empty() && a.terms.size() == 1; }

// Of a kernel the search among `count` elements that has this end, by building it again.
class Comparison {
 public:
  Comparison(const Kernel& kernel, const Search& search) : k_(kernel), search_(search) {
    const int64_t count = search.access.terms[0].extent;
    KernelBuilder b({});
    const KernelArg& arg = kernel.args[static_cast<size_t>(search.access.arg)];
    const int elements = b.input({arg.dtype, {count}});
    const Scalar type = expr(search.value).type;
    const Ex value = b.load(b.input({type == Scalar::boolean ? DType::boolean
                                     : type == Scalar::i64   ? DType::i64
                                     : type == Scalar::f32   ? DType::f32
                                                             : DType::f64,
                                     {}}),
                            {});
    const Ex end = first_not(b, count, [&](Ex position) {
      const Coord at[] = {position};
      const Ex element = b.load(elements, at);
      const Before& before = search.before;
      const Ex holds =
          b.binary(before.op, before.element_first ? element : value, before.element_first ? value : element);
      return before.negated ? !holds : holds;
    });
    end_ = end.id, value_ = value.id;
    b.store(b.output({DType::i64, {}}), end);
    again_ = b.finish("search");
    same_.assign(again_.exprs.size(), -1);
  }

  bool holds(int32_t end) { return is_same(end_, end); }

 private:
  const Expr& expr(int32_t i) const { return k_.exprs[static_cast<size_t>(i)]; }

  bool is_same(int32_t built, int32_t found) {
    int32_t& known = same_[static_cast<size_t>(built)];
    if (known >= 0) return known == found;
    known = found;
    if (built == value_) return found == search_.value;
    const Expr &a = again_.exprs[static_cast<size_t>(built)], &b = expr(found);
    if (a.op != b.op || a.type != b.type) return false;
    if (a.op == ExprOp::load) {
      if (!is_of_one_term(k_.accesses[static_cast<size_t>(b.integer)])) return false;
      Access other = k_.accesses[static_cast<size_t>(b.integer)];
      const int32_t position = std::exchange(other.terms[0].expr, search_.access.terms[0].expr);
      return other == search_.access &&
             is_same(again_.accesses[static_cast<size_t>(a.integer)].terms[0].expr, position);
    }
    if (a.integer != b.integer || a.number != b.number) return false;
    for (int n = 0; n < expr_arity(a.op); ++n)
      if (!is_same(a.in[static_cast<size_t>(n)], b.in[static_cast<size_t>(n)])) return false;
    return true;
  }

  const Kernel& k_;
  const Search& search_;
  Kernel again_;
  int32_t end_ = -1, value_ = -1;
  std::vector<int32_t> same_;  // by expression of the one that was built: the kernel's
};

}  // namespace

int search_steps(int64_t count) { return std::bit_width(static_cast<uint64_t>(count)); }

Ex first_not(KernelBuilder& k, int64_t count, const std::function<Ex(Ex position)>& before) {
  Ex first = k.integer(0), left;  // how many positions may be it, where that is not `known`
  int64_t known = count;
  for (int step = search_steps(count); step > 0; --step) {
    if (!left.builder) {
      const int64_t half = known / 2, rest = known - half - 1;
      const bool begins = step == search_steps(count);
      const Ex is_before = before(begins ? k.integer(half) : half > 0 ? first + half : first);
      first = select(is_before, begins ? k.integer(half + 1) : first + (half + 1), first);
      known = half;
      if (rest != half) left = select(is_before, k.integer(rest), k.integer(half));
      continue;
    }
    const Ex half = shr(left, k.integer(1)), middle = first + half;
    const Ex is_before = left > 0 && before(min(middle, count - 1));
    first = select(is_before, middle + 1, first);
    left = select(is_before, left - half - 1, half);
  }
  return first;
}

std::optional<Search> search_at(const Kernel& k, int32_t end) {
  const auto expr = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  if (expr(end).op != ExprOp::select || expr(end).type != Scalar::i64) return std::nullopt;
  int32_t condition = expr(end).in[0];
  if (expr(condition).op == ExprOp::bit_and) condition = expr(condition).in[1];
  Search search;
  search.before.negated = expr(condition).op == ExprOp::logical_not;
  const Expr& comparison = expr(search.before.negated ? expr(condition).in[0] : condition);
  if (comparison.op != ExprOp::lt && comparison.op != ExprOp::le) return std::nullopt;
  search.before.op = comparison.op;
  for (const bool first : {false, true}) {
    const Expr& element = expr(comparison.in[first ? 0 : 1]);
    if (element.op != ExprOp::load) continue;
    const Access& access = k.accesses[static_cast<size_t>(element.integer)];
    if (!is_of_one_term(access)) continue;
    search.access = access;
    search.before.element_first = first;
    search.value = comparison.in[first ? 1 : 0];
    if (Comparison(k, search).holds(end)) return search;
  }
  return std::nullopt;
}

}  // namespace npusim
