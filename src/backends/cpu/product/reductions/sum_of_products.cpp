// The operands of sums of products and of distances, and the conditions that select them.
#include "backends/cpu/product/reductions/sum_of_products.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/loops/rewrite/condition.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/range.h"
#include "kernel/facts/rename.h"

namespace npusim::cpu::product::reductions {
namespace {

// Rows, columns and terms from which loops are slower. Windows of convolutions are more to pack, which loops make up
// for along long lines of doubles; their integers they multiply more slowly.
constexpr int64_t least = 2, least_of_long_lines = 4, long_line = 32;

// Whether a guard holds wherever another does.
bool follows(const Guard& guard, const Guard& from) {
  constexpr int64_t large = int64_t{1} << 50;  // conditions have no such offsets
  if (from.limit > large || from.offset < -large || from.offset > large) return false;
  const auto opposite = [](int64_t a, int64_t b) { return static_cast<uint64_t>(a) + static_cast<uint64_t>(b) == 0; };
  const bool negated = std::equal(guard.coeffs.begin(), guard.coeffs.end(), from.coeffs.begin(), opposite);
  const int64_t sum = guard.offset + from.offset, difference = guard.offset - from.offset, most = from.limit - 1;
  return (guard.coeffs == from.coeffs && difference >= 0 && difference + most < guard.limit) ||
         (negated && sum - most >= 0 && sum < guard.limit);
}

bool follows(const Guard& guard, const Access& from) {
  return std::any_of(from.guards.begin(), from.guards.end(), [&](const Guard& g) { return follows(guard, g); });
}

// What is selected by a condition, 0 elsewhere: the guards of the condition, but for those that hold everywhere, and
// what it selects; or none and `at` itself. Of a kernel whose conditions are found. nullopt: another select.
struct Selection {
  std::vector<Guard> guards;
  int32_t at;
};
std::optional<Selection> selection_of(const Kernel& k, int32_t at) {
  const auto expr = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  const Expr& e = expr(at);
  if (e.op != ExprOp::select) return Selection{{}, at};
  const Expr &condition = expr(e.in[0]), &other = expr(e.in[2]);
  if (other.op != ExprOp::constant || other.number != 0 || other.integer != 0 ||
      !loops::rewrite::is_condition(condition))
    return std::nullopt;
  Selection selection{k.accesses[static_cast<size_t>(condition.integer)].guards, e.in[1]};
  std::erase_if(selection.guards, [&](const Guard& guard) {
    const auto range = range_of(guard.offset, guard.coeffs, k.space);
    return range && range->low >= 0 && range->high < guard.limit;
  });
  return selection;
}

// What a load reads, 0 where its guards or the condition that selects it do not hold.
std::optional<Access> operand_access(const Kernel& k, int32_t at, Scalar sum) {
  const auto selection = selection_of(k, at);
  if (!selection) return std::nullopt;
  const Expr& load = k.exprs[static_cast<size_t>(selection->at)];
  if (load.op != ExprOp::load || loops::rewrite::is_condition(load)) return std::nullopt;
  const Access& own = k.accesses[static_cast<size_t>(load.integer)];
  const DType dtype = k.args[static_cast<size_t>(own.arg)].dtype;
  if (!own.terms.empty() || (sum == Scalar::f64 ? dtype != DType::f64 : is_float(dtype))) return std::nullopt;
  Access found = own;
  for (const Guard& guard : selection->guards) {
    if (follows(guard, own)) continue;
    found.guards.push_back(guard);
    found.guards.back().stride = 0;
  }
  return found;
}

// The elements that are multiplied, or their distances. Those of integers wrap around.
std::optional<Pair> pair_of(const Kernel& k, const Expr& reduction, int32_t term) {
  if (reduction.type == Scalar::f64)
    if (const auto distances = pair_of_distances(k, reduction)) return distances;
  const Expr& product = k.exprs[static_cast<size_t>(term)];
  if (reduction.reduction != Reduction::sum || product.op != ExprOp::mul) return std::nullopt;
  return Pair{Pairing::product, product.in[0], product.in[1]};
}

// The operands of the one reduction.
std::optional<SumOfProducts> operands_of(const Kernel& k, const Expr& sum) {
  const auto selection = selection_of(k, sum.in[0]);
  const auto pair = selection ? pair_of(k, sum, selection->at) : std::nullopt;
  if (!pair) return std::nullopt;
  const auto a = operand_access(k, pair->a, sum.type), b = operand_access(k, pair->b, sum.type);
  if (!a || !b) return std::nullopt;
  SumOfProducts sums{0, pair->pairing, *a, *b, {}};
  const auto all_follow = [&](const Access& from) {
    return std::all_of(selection->guards.begin(), selection->guards.end(),
                       [&](const Guard& guard) { return follows(guard, from); });
  };
  if (selection->guards.empty()) return sums;
  if (!all_follow(*a) && !all_follow(*b)) return std::nullopt;
  if (sum.type == Scalar::f64) sums.selected = all_follow(*a) ? SumOfProducts::of_a : SumOfProducts::of_b;
  return sums;
}

void swap_operands(SumOfProducts& s) {
  std::swap(s.a, s.b);
  std::swap(s.axes.rows, s.axes.columns);
  if (s.selected != SumOfProducts::none)
    s.selected = s.selected == SumOfProducts::of_a ? SumOfProducts::of_b : SumOfProducts::of_a;
}

// The rows and the columns are such that columns lie side by side in the result, and dimensions of the columns around
// the rows of it are of the batch where enough columns are left: an image's batch.
void arrange(const Kernel& k, SumOfProducts& s) {
  constexpr int64_t enough_columns = 96;
  const std::vector<int64_t>& to = k.stores[0].access.strides;
  const auto step = [&](int d) { return to[static_cast<size_t>(d)]; };
  const auto neighbours = [&](const Axis& axis) {
    int64_t least = 0;
    for (size_t i = 0; i < axis.dims.size(); ++i)
      if (axis.extents[i] > 1) least = step(axis.dims[i]);
    return least == 1;
  };
  ProductAxes& x = s.axes;
  if (neighbours(x.rows) && !neighbours(x.columns)) swap_operands(s);
  int64_t rows_step = 0;
  for (const int d : x.rows.dims) rows_step = std::max(rows_step, step(d));
  while (x.columns.dims.size() > 1 && step(x.columns.dims[0]) > rows_step &&
         x.columns.size() / x.columns.extents[0] >= enough_columns) {
    std::vector<int> batch = x.batch.dims, columns(x.columns.dims.begin() + 1, x.columns.dims.end());
    batch.push_back(x.columns.dims[0]);
    std::sort(batch.begin(), batch.end());
    x.batch = make_axis(k.space, std::move(batch)), x.columns = make_axis(k.space, std::move(columns));
  }
}

// Where a dimension's sums lie, which are [batch][rows][columns].
std::vector<int64_t> strides_of_sums(const ProductAxes& axes, size_t rank) {
  std::vector<int64_t> strides(rank, 0);
  int64_t step = 1;
  for (const Axis* axis : {&axes.columns, &axes.rows, &axes.batch})
    for (size_t i = axis->dims.size(); i-- > 0; step *= axis->extents[i])
      strides[static_cast<size_t>(axis->dims[i])] = step;
  return strides;
}

int64_t enough_terms(const SumOfProducts& s, Scalar type) {
  const Axis& longer = s.axes.rows.size() > s.axes.columns.size() ? s.axes.rows : s.axes.columns;
  const bool windows = !s.a.guards.empty() || !s.b.guards.empty();
  return windows && type == Scalar::f64 && !longer.extents.empty() && longer.extents.back() >= long_line
             ? least_of_long_lines
             : least;
}

}  // namespace

std::optional<SumOfProducts> match_sum_of_products(const Kernel& k) {
  const auto is_reduction = [](const Expr& e) { return e.op == ExprOp::reduce; };
  const auto first = std::find_if(k.exprs.begin(), k.exprs.end(), is_reduction);
  if (k.stores.empty() || first == k.exprs.end() || std::any_of(first + 1, k.exprs.end(), is_reduction) ||
      std::any_of(k.exprs.begin(), k.exprs.end(),
                  [](const Expr& e) { return e.op == ExprOp::scan || e.op == ExprOp::order; }))
    return std::nullopt;
  const bool wide = first->type == Scalar::f64 || first->type == Scalar::i64;
  if (!wide) return std::nullopt;
  Kernel found = k;
  loops::rewrite::find_conditions(found);
  auto operands = operands_of(found, *std::find_if(found.exprs.begin(), found.exprs.end(), is_reduction));
  if (!operands) return std::nullopt;
  SumOfProducts& sums = *operands;
  sums.at = static_cast<size_t>(first - k.exprs.begin());
  std::vector<int> batch, rows, columns, depth;
  for (int d = 0; d < static_cast<int>(k.space.size()); ++d) {
    const bool of_a = depends_on(sums.a, d), of_b = depends_on(sums.b, d);
    if (d >= static_cast<int>(k.space.size()) - k.row_dims)
      depth.push_back(d);
    else if (of_a || of_b)
      (of_a && of_b ? batch : of_a ? rows : columns).push_back(d);
  }
  const auto axis = [&](std::vector<int> dims) { return make_axis(k.space, std::move(dims)); };
  sums.axes = {axis(batch), axis(rows), axis(columns), axis(depth)};
  const ProductAxes& x = sums.axes;
  if (std::min({x.rows.size(), x.columns.size(), x.depth.size()}) < enough_terms(sums, first->type))
    return std::nullopt;
  arrange(k, sums);
  return operands;
}

std::optional<Kernel> rest_of(const Kernel& k, const SumOfProducts& sums) {
  Kernel rest = k;
  const Scalar type = k.exprs[sums.at].type;
  rest.args.push_back({type == Scalar::f64 ? DType::f64 : DType::i64,
                       sums.axes.batch.size() * sums.axes.rows.size() * sums.axes.columns.size(), false, -1});
  rest.accesses.push_back(
      {static_cast<int>(rest.args.size()) - 1, 0, strides_of_sums(sums.axes, k.space.size()), {}, {}});
  Expr load{.op = ExprOp::load, .type = type};
  load.integer = static_cast<int64_t>(rest.accesses.size()) - 1;
  rest.exprs[sums.at] = load;
  drop_dead(rest);
  const Dependence depends = dependence_of(rest);
  const DimSet row = row_of(rest);
  if (std::any_of(depends.dims.begin(), depends.dims.end(), [&](DimSet set) { return (set & row) != 0; }))
    return std::nullopt;
  for (const Store& s : rest.stores)
    if (s.accumulate || (dims_of(s.access, depends) & row)) return std::nullopt;
  cut_row(rest);
  return rest;
}

}  // namespace npusim::cpu::product::reductions
