// The rules of kernel IR, checked: ranks, operand order and types, access bounds, argument roles.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"
#include "kernel/facts/range.h"
#include "kernel/facts/score_kernel.h"
#include "kernel/kernel.h"
#include "kernel/limits.h"

namespace npusim {
namespace {

constexpr int64_t max_coefficient = int64_t{1} << 56;
constexpr __int128 max_distance = int64_t{1} << 43;  // of addresses that are computed and not reached: no pointer wraps
constexpr int64_t max_coordinate = int64_t{1} << 60;  // sums and differences of a few stay in int64
constexpr size_t max_exprs = 16384;                   // some who ask of kernels follow operands by recursion

std::string text_of_op(const Expr& e) {
  return e.op == ExprOp::round_to ? fmt::format("round_to {}", dtype_name(e.dtype)) : std::string(expr_op_name(e.op));
}

// Checks one kernel, or an attention's score as one.
struct Checker {
  const Kernel& k;
  std::vector<std::string>& problems;

  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... parts) {
    if (problems.size() < 20) problems.push_back(fmt::format(format, std::forward<T>(parts)...));
  }

  void access(const Access& a, const std::vector<int64_t>& dims, size_t exprs_before, bool write, const char* what) {
    if (a.arg < 0 || static_cast<size_t>(a.arg) >= k.args.size()) return add("{}: no argument %{}", what, a.arg);
    const KernelArg& arg = k.args[static_cast<size_t>(a.arg)];
    if (arg.written != write) add("{}: argument %{} is for {}", what, a.arg, arg.written ? "writing" : "reading");
    if (a.strides.size() != dims.size())
      return add("{}: {} strides for {} dimensions", what, a.strides.size(), dims.size());
    for (const Guard& g : a.guards)
      if (g.coeffs.size() != dims.size())
        return add("{}: guard has {} coefficients for {} dimensions", what, g.coeffs.size(), dims.size());
    for (const IndexTerm& t : a.terms) {
      if (t.expr < 0 || static_cast<size_t>(t.expr) >= exprs_before)
        return add("{}: bad index expression e{}", what, t.expr);
      if (k.exprs[static_cast<size_t>(t.expr)].type != Scalar::i64)
        add("{}: index expression e{} is not i64", what, t.expr);
    }
    if (a.terms.size() > max_dims) return add("{}: {} index terms, at most {}", what, a.terms.size(), max_dims);
    if (!coefficients(a, what)) return;
    if (const auto extents = extents_of(a, dims)) bounds(a, *extents, what);
  }

  // The extents over which the access is made; none: there are no points. Of a row without elements, what is the same
  // along it is there all the same.
  std::optional<std::vector<int64_t>> extents_of(const Access& a, std::vector<int64_t> dims) const {
    for (size_t d = k.space.size() - static_cast<size_t>(k.row_dims); d < k.space.size(); ++d) {
      const bool moves = a.strides[d] != 0 || std::any_of(a.guards.begin(), a.guards.end(),
                                                          [&](const Guard& g) { return g.coeffs[d] != 0; });
      if (dims[d] == 0 && !moves) dims[d] = 1;
    }
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return std::nullopt;
    return dims;
  }

  void bounds(const Access& a, const std::vector<int64_t>& extents, const char* what) {
    constexpr __int128 far = __int128{max_coefficient} * 4;
    __int128 size = magnitude(a.offset, a.strides, extents);
    std::optional<Range> reach = range_of(a.offset, a.strides, extents);
    if (!reach || size > far) return add("{}: addresses of argument %{} are beyond 2^58", what, a.arg);
    __int128 low = reach->low, high = reach->high;  // as if no guard held anything back
    for (const Guard& g : a.guards) {
      const __int128 value = magnitude(g.offset, g.coeffs, extents);
      if (value > max_coordinate) return add("{}: a guard of argument %{} is of coordinates beyond 2^60", what, a.arg);
      const Range range = *range_of(g.offset, g.coeffs, extents);
      const __int128 first = static_cast<__int128>(g.stride) * range.low,
                     last = static_cast<__int128>(g.stride) * range.high;
      low += std::min(first, last), high += std::max(first, last);
      size += value * (g.stride < 0 ? -static_cast<__int128>(g.stride) : g.stride);
      if (reach) reach = widened(*reach, g.stride, std::max<int64_t>(g.limit, 1));
    }
    for (const IndexTerm& t : a.terms)
      if (reach) reach = widened(*reach, t.stride, std::max<int64_t>(t.extent, 1));
    if (!reach || size > far) return add("{}: addresses of argument %{} are beyond 2^58", what, a.arg);
    const KernelArg& arg = k.args[static_cast<size_t>(a.arg)];
    if (touches(a) && (reach->low < 0 || reach->high >= arg.elements))
      add("{}: elements {}..{} of argument %{}, which has {}", what, reach->low, reach->high, a.arg, arg.elements);
    else if (low < -max_distance || high > arg.elements + max_distance)
      add("{}: what guards leave out is farther than 2^43 elements from argument %{}", what, a.arg);
  }

  // What no sum of some of a coordinate's parts is beyond, as of those who move it to a part of the space.
  static __int128 magnitude(int64_t offset, const std::vector<int64_t>& coeffs, const std::vector<int64_t>& extents) {
    const auto size = [](int64_t n) { return n < 0 ? -static_cast<__int128>(n) : static_cast<__int128>(n); };
    __int128 sum = size(offset);
    for (size_t d = 0; d < coeffs.size(); ++d) sum += size(coeffs[d]) * extents[d];
    return sum;
  }

  static bool beyond(int64_t n) { return n < -max_coordinate || n > max_coordinate; }

  // Along a dimension of extent 1 a stride says nothing, but whoever takes dimensions together computes with it.
  bool coefficients(const Access& a, const char* what) {
    const auto large = [](int64_t n) { return n < -max_coefficient || n > max_coefficient; };
    const auto no_extent = [](int64_t n) { return n < 0 || beyond(n); };
    bool found = std::any_of(a.strides.begin(), a.strides.end(), large), far = beyond(a.offset), extents = false;
    for (const Guard& g : a.guards) {
      found = found || large(g.stride) || std::any_of(g.coeffs.begin(), g.coeffs.end(), large);
      far = far || beyond(g.offset), extents = extents || no_extent(g.limit);
    }
    for (const IndexTerm& t : a.terms) found = found || large(t.stride), extents = extents || no_extent(t.extent);
    if (found) add("{}: a stride of argument %{} is beyond 2^56", what, a.arg);
    if (far) add("{}: an offset of argument %{} is beyond 2^60", what, a.arg);
    if (extents) add("{}: a limit or an extent of argument %{} is not from 0 to 2^60", what, a.arg);
    return !found && !far && !extents;
  }

  // Whether a point, if there is one, can touch memory.
  static bool touches(const Access& a) {
    return std::none_of(a.guards.begin(), a.guards.end(), [](const Guard& g) { return g.limit < 1; }) &&
           std::none_of(a.terms.begin(), a.terms.end(), [](const IndexTerm& t) { return t.extent < 1; });
  }

  void expression(size_t i) {
    const Expr& e = k.exprs[i];
    std::array<Scalar, 3> types{};
    for (int n = 0; n < expr_arity(e.op); ++n) {
      const int32_t operand = e.in[static_cast<size_t>(n)];
      if (operand < 0 || static_cast<size_t>(operand) >= i)
        return add("e{}: operand {} is not an earlier expression", i, operand);
      types[static_cast<size_t>(n)] = k.exprs[static_cast<size_t>(operand)].type;
    }
    for (auto n = static_cast<size_t>(expr_arity(e.op)); n < e.in.size(); ++n)
      if (e.in[n] != -1) return add("e{}: {} has no operand {}", i, expr_op_name(e.op), n);
    switch (e.op) {
      case ExprOp::constant:
      case ExprOp::cast:
        return;
      case ExprOp::index:
        if (e.integer < 0 || static_cast<size_t>(e.integer) >= k.space.size())
          add("e{}: no dimension {}", i, e.integer);
        if (e.type != Scalar::i64) add("e{}: an index is i64", i);
        return;
      case ExprOp::load: {
        if (e.integer < 0 || static_cast<size_t>(e.integer) >= k.accesses.size())
          return add("e{}: no access {}", i, e.integer);
        const Access& a = k.accesses[static_cast<size_t>(e.integer)];
        if (const KernelArg* arg = argument(a.arg); arg && e.type != scalar_of(arg->dtype))
          add("e{}: a load of {} is {}, found {}", i, dtype_name(arg->dtype), scalar_name(scalar_of(arg->dtype)),
              scalar_name(e.type));
        return;
      }
      case ExprOp::contraction:
        if (!k.contraction) add("e{}: the kernel has no contraction", i);
        if (e.type != Scalar::f32) add("e{}: a contraction is f32", i);
        if (e.integer != 0 && (e.integer != 1 || (k.contraction && k.contraction->kind != ContractionKind::attention)))
          add("e{}: a contraction has no value {}", i, e.integer);
        return;
      case ExprOp::require:
        if (types[0] != Scalar::boolean || e.type != Scalar::boolean || e.integer < 0 || e.integer >= requirement_count)
          add("e{}: ill-typed require", i);
        return;
      case ExprOp::select:
        if (types[0] != Scalar::boolean || types[1] != types[2] || types[1] != e.type) add("e{}: ill-typed select", i);
        return;
      case ExprOp::scan:
        if (k.row_dims != 1) add("e{}: a scan is along one dimension", i);
        if (e.integer != 0 && (e.integer != 1 || e.reduction != Reduction::sum || e.type < Scalar::f32))
          add("e{}: a scan has no value {}", i, e.integer);
        [[fallthrough]];
      default:
        if (expr_arity(e.op) == 2 && types[0] != types[1]) return add("e{}: operands of different types", i);
        if (e.type != result_type(e.op, types[0], types[1])) return add("e{}: ill-typed {}", i, expr_op_name(e.op));
        if (!has_meaning(e.op, types[0]) || (e.op == ExprOp::round_to && scalar_of(e.dtype) != types[0]))
          add("e{}: there is no {} of {}", i, text_of_op(e), scalar_name(types[0]));
    }
  }

  void expressions() {
    if (k.exprs.size() > max_exprs) return add("{} expressions, at most {}", k.exprs.size(), max_exprs);
    for (size_t i = 0; i < k.exprs.size(); ++i) {
      const Expr& e = k.exprs[i];
      if (static_cast<int>(e.op) >= expr_op_count || e.type > Scalar::f64 || static_cast<int>(e.dtype) >= dtype_count ||
          e.reduction > Reduction::max)
        add("e{}: unknown operation or type", i);
    }
    if (!problems.empty()) return;  // what follows has names for all of them
    for (size_t i = 0; i < k.exprs.size(); ++i) expression(i);
    accesses();
  }

  // Each once, however many loads name it; what it is computed from comes before all of them.
  void accesses() {
    std::vector<size_t> first(k.accesses.size(), k.exprs.size());
    for (size_t i = k.exprs.size(); i-- > 0;) {
      const Expr& e = k.exprs[i];
      if (e.op == ExprOp::load && e.integer >= 0 && static_cast<size_t>(e.integer) < first.size())
        first[static_cast<size_t>(e.integer)] = i;
    }
    for (size_t n = 0; n < first.size(); ++n)
      if (first[n] == k.exprs.size())
        add("access {}: no load names it", n);
      else
        access(k.accesses[n], k.space, first[n], false, fmt::format("e{}", first[n]).c_str());
  }

  void run() {
    if (k.call) return call(*k.call);
    if (k.row_dims < 0 || static_cast<size_t>(k.row_dims) > k.space.size())
      return add("row of {} dimensions", k.row_dims);
    if (k.space.size() > max_dims) return add("{} dimensions, at most {}", k.space.size(), max_dims);
    if (const std::string problem = uncountable(k); !problem.empty()) return add("{}", problem);
    if (k.contraction) contraction(*k.contraction);
    expressions();
    if (!problems.empty()) return;
    if (const std::string problem = beyond_limits(k); !problem.empty()) return add("{}", problem);
    if (has_order(k))
      if (const std::string problem = order_problem(k); !problem.empty()) return add("{}", problem);
    if (has_fourier(k))
      if (const std::string problem = fourier_problem(k); !problem.empty()) return add("{}", problem);
    for (const Store& s : k.stores) {
      if (s.expr < 0 || static_cast<size_t>(s.expr) >= k.exprs.size())
        add("store of no expression e{}", s.expr);
      else
        store(s);
    }
    if (!problems.empty()) return;
    empty_rows();
    for (const std::string& problem : store_conflicts(k)) add("{}", problem);
  }

  // Of a row without elements there is nothing to store once but what is the same along it.
  void empty_rows() {
    const auto row = k.space.end() - k.row_dims;
    if (std::find(row, k.space.end(), 0) == k.space.end() || std::find(k.space.begin(), row, 0) != row) return;
    const Dependence dependence = dependence_of(k);
    for (const Store& s : k.stores)
      if (const DimSet dims = row_of(k);
          !(dims_of(s.access, dependence) & dims) && (dependence.dims[static_cast<size_t>(s.expr)] & dims))
        add("%{} is stored once in a row, and e{} varies along it", s.access.arg, s.expr);
  }

  static bool has_elements(const Shape& shape, int64_t elements) {
    if (shape.size() > max_dims) return false;
    try {
      return element_count(shape) == elements;
    } catch (const Error&) {
      return false;
    }
  }

  // Each argument of the kernel is an operand or one of the results.
  void call(const Call& call) {
    if (!k.space.empty() || k.row_dims != 0 || !k.accesses.empty() || !k.exprs.empty() || !k.stores.empty() ||
        k.contraction)
      return add("a call computes something itself");
    if (call.op.empty()) add("a call of no operator");
    std::vector<int> named(k.args.size());
    for (const bool written : {false, true})
      for (const CallTensor& tensor : written ? call.results : call.operands) {
        const KernelArg* arg = argument(tensor.arg);
        if (!arg || arg->written != written || arg->updates >= 0)
          return add("call: %{} is no {}", tensor.arg, written ? "result" : "operand");
        if (!has_elements(tensor.shape, arg->elements))
          return add("call: %{} of {} elements as {}", tensor.arg, arg->elements, to_string(tensor.shape));
        if (written && named[static_cast<size_t>(tensor.arg)]) return add("call: %{} is two results", tensor.arg);
        ++named[static_cast<size_t>(tensor.arg)];
      }
    if (std::count(named.begin(), named.end(), 0) != 0) add("call: an argument that it does not name");
    for (const CallArgument& argument : call.arguments) call_argument(argument, call.operands.size());
  }

  void call_argument(const CallArgument& a, size_t operands) {
    const CallKind kind = a.kind;
    const bool one =
        kind == CallKind::tensor || kind == CallKind::boolean || kind == CallKind::integer || kind == CallKind::real;
    const bool tensors = kind == CallKind::tensor || kind == CallKind::tensors;
    const bool integers = kind == CallKind::boolean || kind == CallKind::integer || kind == CallKind::integers ||
                          kind == CallKind::booleans;
    const bool reals = kind == CallKind::real || kind == CallKind::reals;
    const auto is = [&](size_t size, bool wanted) { return wanted ? !one || size == 1 : size == 0; };
    if (kind > CallKind::booleans || !is(a.tensors.size(), tensors) || !is(a.integers.size(), integers) ||
        !is(a.reals.size(), reals) || (!a.text.empty() && kind != CallKind::text && kind != CallKind::dtype))
      return add("call: an argument that is not what its kind says");
    for (const int32_t tensor : a.tensors)
      if (tensor < (kind == CallKind::tensors ? -1 : 0) || tensor >= static_cast<int64_t>(operands))
        return add("call: there is no operand {}", tensor);
  }

  void store(const Store& s) {
    access(s.access, k.space, k.exprs.size(), true, "store");
    if (s.accumulate && k.row_dims > 0) add("store: what adds up has no row");
    if (s.reduction > (s.accumulate ? Reduction::max : Reduction::sum)) add("store: unknown reduction");
    const Scalar type = k.exprs[static_cast<size_t>(s.expr)].type;
    if (const KernelArg* arg = argument(s.access.arg); arg && type != scalar_of(arg->dtype))
      add("store: e{} is {}, argument %{} is {}", s.expr, scalar_name(type), s.access.arg, dtype_name(arg->dtype));
  }

  const KernelArg* argument(int at) const {
    return at < 0 || static_cast<size_t>(at) >= k.args.size() ? nullptr : &k.args[static_cast<size_t>(at)];
  }

  void contraction(const Contraction& c) {
    if (c.kind > ContractionKind::attention) return add("unknown contraction");
    std::vector<int64_t> dims = k.space;
    for (int64_t n : c.reduce) {
      if (n < 0 || n > (int64_t{1} << 40)) return add("bad reduced extents {}", to_string(c.reduce));
      dims.push_back(n);
    }
    if (dims.size() > max_dims) return add("{} dimensions with the reduced ones, at most {}", dims.size(), max_dims);
    if (k.row_dims != 0) add("a contraction has no row");
    if (!c.a.terms.empty() || !c.b.terms.empty()) return add("a contraction's operands have no index terms");
    if (c.kind == ContractionKind::attention) {
      if (!c.score || c.reduce.size() != 1 || k.space.empty())
        return add("attention needs a score, one reduced dimension, rank 1");
      const Score& score = *c.score;
      std::vector<int64_t> expected(k.space.begin(), k.space.end() - 1);
      expected.push_back(c.reduce[0]);
      if (score.space != expected) return add("attention's score is not over the queries and keys");
      if (!(c.a == Access{})) add("attention's product is its score's");
      const Kernel inner = score_kernel(k);
      Checker{inner, problems}.run();
      if (score.result < 0 || static_cast<size_t>(score.result) >= score.exprs.size() ||
          score.exprs[static_cast<size_t>(score.result)].type != Scalar::f32)
        add("attention's score is no f32 expression");
      if (score.keys != -1 && problems.empty()) keys(inner, score.keys);
    } else {
      if (c.score) return add("a score without attention");
      operand(c.a, dims, "operand a");
    }
    operand(c.b, dims, "operand b");
  }

  // How many keys there are: `expr` of the score as a kernel.
  void keys(const Kernel& score, int32_t expr) {
    if (expr < 0 || static_cast<size_t>(expr) >= score.exprs.size() ||
        score.exprs[static_cast<size_t>(expr)].type != Scalar::i64)
      return add("attention's number of keys is no i64 expression");
    if (dependence_of(score).dims[static_cast<size_t>(expr)] & dim_bit(score.space.size() - 1))
      add("attention's number of keys varies along the keys");
  }

  void operand(const Access& a, const std::vector<int64_t>& dims, const char* what) {
    access(a, dims, 0, false, what);
    if (const KernelArg* arg = argument(a.arg); arg && scalar_of(arg->dtype) != Scalar::f32)
      add("{}: a contraction of {}", what, dtype_name(arg->dtype));
  }
};

}  // namespace

std::string uncountable(const Kernel& kernel) {
  const auto beyond = [](Shape space, const std::vector<int64_t>& reduce) -> std::string {
    space.insert(space.end(), reduce.begin(), reduce.end());
    int64_t points = 1;
    for (const int64_t n : space)
      if (n < 0 || (n > 0 && __builtin_mul_overflow(points, n, &points)) || points > (int64_t{1} << 56))
        return fmt::format("index space {} has no number of points up to 2^56", to_string(space));
    return "";
  };
  if (!kernel.contraction) return beyond(kernel.space, {});
  const Score* score = kernel.contraction->score.get();
  std::string problem = beyond(kernel.space, kernel.contraction->reduce);
  return problem.empty() && score ? beyond(score->space, score->reduce) : problem;
}

std::vector<std::string> check_kernel(const Kernel& kernel) {
  std::vector<std::string> problems;
  bool writes = false;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    if (arg.elements < 0 || arg.elements > (int64_t{1} << 56) || static_cast<int>(arg.dtype) >= dtype_count)
      problems.push_back(fmt::format("argument %{}: bad size or type", i));
    if (writes && !arg.written) problems.push_back(fmt::format("argument %{}: reads come before writes", i));
    writes = writes || arg.written;
    if (arg.updates < -1) problems.push_back(fmt::format("argument %{}: cannot update %{}", i, arg.updates));
    if (arg.updates >= 0) {
      const auto source = static_cast<size_t>(arg.updates);
      if (!arg.written || source >= i || kernel.args[source].written || kernel.args[source].dtype != arg.dtype ||
          kernel.args[source].elements != arg.elements)
        problems.push_back(fmt::format("argument %{}: cannot update %{}", i, arg.updates));
    }
  }
  if (problems.empty()) Checker{kernel, problems}.run();
  return problems;
}

}  // namespace npusim
