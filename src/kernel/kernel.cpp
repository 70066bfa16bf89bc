// Names, typing, text form, hash and checks of kernel IR.
#include "kernel/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace npusim {
namespace {

struct OpRow {
  std::string_view name;
  int arity;
};
constexpr std::array<OpRow, expr_op_count> op_rows{{
    {"constant", 0}, {"index", 0},    {"load", 0},   {"contraction", 0}, {"neg", 1},   {"abs", 1},   {"exp", 1},
    {"exp2", 1},     {"expm1", 1},    {"log", 1},    {"log2", 1},        {"log10", 1}, {"log1p", 1}, {"sqrt", 1},
    {"rsqrt", 1},    {"sin", 1},      {"cos", 1},    {"tan", 1},         {"asin", 1},  {"acos", 1},  {"atan", 1},
    {"sinh", 1},     {"cosh", 1},     {"tanh", 1},   {"asinh", 1},       {"acosh", 1}, {"atanh", 1}, {"erf", 1},
    {"erfc", 1},     {"floor", 1},    {"ceil", 1},   {"round", 1},       {"trunc", 1}, {"isnan", 1}, {"not", 1},
    {"add", 2},      {"sub", 2},      {"mul", 2},    {"div", 2},         {"min", 2},   {"max", 2},   {"pow", 2},
    {"fmod", 2},     {"atan2", 2},    {"idiv", 2},   {"irem", 2},        {"and", 2},   {"or", 2},    {"xor", 2},
    {"shl", 2},      {"shr", 2},      {"eq", 2},     {"ne", 2},          {"lt", 2},    {"le", 2},    {"select", 3},
    {"cast", 1},     {"round_to", 1}, {"reduce", 1}, {"scan", 1},
}};

constexpr std::array<std::string_view, 4> scalar_names{"bool", "i64", "f32", "f64"};
constexpr std::array<std::string_view, 4> reduction_names{"sum", "product", "min", "max"};
constexpr std::array<std::string_view, 3> contraction_names{"matmul", "conv", "attention"};

std::string text_of(const Access& a) {
  std::string text = fmt::format("%{}[{} + {}", a.arg, a.offset, to_string(a.strides));
  for (const Guard& g : a.guards)
    text += fmt::format(" + {}*guard({} + {} < {})", g.stride, g.offset, to_string(g.coeffs), g.limit);
  for (const IndexTerm& t : a.terms) text += fmt::format(" + {}*at(e{} < {})", t.stride, t.expr, t.extent);
  return text + "]";
}

void append_text(std::string& out, const Kernel& k, std::string_view indent) {
  out += fmt::format("{}space {} row {}\n", indent, to_string(k.space), k.row_dims);
  for (size_t i = 0; i < k.args.size(); ++i) {
    const KernelArg& arg = k.args[i];
    out += fmt::format("{}%{} = {} {} x{}", indent, i, arg.written ? "write" : "read", dtype_name(arg.dtype),
                       arg.elements);
    out += arg.updates >= 0 ? fmt::format(" updates %{}\n", arg.updates) : "\n";
  }
  if (k.contraction) {
    const Contraction& c = *k.contraction;
    out += fmt::format("{}{} over {}{}\n", indent, contraction_names[static_cast<size_t>(c.kind)], to_string(c.reduce),
                       c.masked_rows_are_zero ? " safe" : "");
    if (c.kind != ContractionKind::attention) out += fmt::format("{}  a {}\n", indent, text_of(c.a));
    out += fmt::format("{}  b {}\n", indent, text_of(c.b));
    if (c.score) append_text(out, *c.score, std::string(indent) + "    ");
  }
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    out += fmt::format("{}e{} = {}", indent, i, expr_op_name(e.op));
    switch (e.op) {
      case ExprOp::constant:
        if (e.type >= Scalar::f32)
          out += fmt::format(" {}", e.number);
        else
          out += fmt::format(" {}", e.integer);
        break;
      case ExprOp::index:
        out += fmt::format(" {}", e.integer);
        break;
      case ExprOp::load:
        out += " " + text_of(k.accesses[static_cast<size_t>(e.integer)]);
        break;
      case ExprOp::round_to:
        out += fmt::format(" {}", dtype_name(e.dtype));
        break;
      case ExprOp::reduce:
      case ExprOp::scan:
        out += fmt::format(" {}", reduction_names[static_cast<size_t>(e.reduction)]);
        break;
      default:
        break;
    }
    for (int operand = 0; operand < expr_arity(e.op); ++operand)
      out += fmt::format(" e{}", e.in[static_cast<size_t>(operand)]);
    out += fmt::format(" : {}\n", scalar_names[static_cast<size_t>(e.type)]);
  }
  for (const Store& s : k.stores)
    out += fmt::format("{}{} {} = e{}\n", indent, s.accumulate ? "accumulate" : "store", text_of(s.access), s.expr);
}

// Checks one kernel's parts against `args` (an attention's score uses the outer kernel's arguments).
struct Checker {
  const Kernel& k;
  const std::vector<KernelArg>& args;
  std::vector<std::string>& problems;

  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... parts) {
    if (problems.size() < 20) problems.push_back(fmt::format(format, std::forward<T>(parts)...));
  }

  // Extremes of offset + Σ coeffs·index over the dimensions; false when the arithmetic leaves int64.
  static bool range(int64_t offset, const std::vector<int64_t>& coeffs, const std::vector<int64_t>& dims, int64_t& low,
                    int64_t& high) {
    low = high = offset;
    for (size_t d = 0; d < dims.size(); ++d) {
      int64_t far = 0;
      if (__builtin_mul_overflow(coeffs[d], dims[d] - 1, &far)) return false;
      if (__builtin_add_overflow(far < 0 ? low : high, far, far < 0 ? &low : &high)) return false;
    }
    return true;
  }

  void access(const Access& a, const std::vector<int64_t>& dims, size_t exprs_before, bool write, const char* what) {
    if (a.arg < 0 || static_cast<size_t>(a.arg) >= args.size()) return add("{}: no argument %{}", what, a.arg);
    const KernelArg& arg = args[static_cast<size_t>(a.arg)];
    if (arg.written != write) add("{}: argument %{} is for {}", what, a.arg, arg.written ? "writing" : "reading");
    if (a.strides.size() != dims.size())
      return add("{}: {} strides for {} dimensions", what, a.strides.size(), dims.size());
    if (std::any_of(dims.begin(), dims.end(), [](int64_t n) { return n == 0; })) return;  // nothing is touched
    int64_t low = 0, high = 0;
    bool fits = range(a.offset, a.strides, dims, low, high);
    auto widen = [&](int64_t stride, int64_t extent) {
      if (extent < 1) return;  // never holds: the memory is never touched
      int64_t far = 0;
      fits = fits && !__builtin_mul_overflow(stride, extent - 1, &far) &&
             !__builtin_add_overflow(far < 0 ? low : high, far, far < 0 ? &low : &high);
    };
    for (const Guard& g : a.guards) {
      int64_t guard_low = 0, guard_high = 0;
      if (g.coeffs.size() != dims.size())
        return add("{}: guard has {} coefficients for {} dimensions", what, g.coeffs.size(), dims.size());
      if (!range(g.offset, g.coeffs, dims, guard_low, guard_high)) fits = false;
      widen(g.stride, g.limit);
      if (g.limit < 1) return;
    }
    for (const IndexTerm& t : a.terms) {
      if (t.expr < 0 || static_cast<size_t>(t.expr) >= exprs_before)
        return add("{}: bad index expression e{}", what, t.expr);
      if (k.exprs[static_cast<size_t>(t.expr)].type != Scalar::i64)
        add("{}: index expression e{} is not i64", what, t.expr);
      widen(t.stride, t.extent);
      if (t.extent < 1) return;
    }
    if (!fits || low < 0 || high >= arg.elements)
      add("{}: elements {}..{} of argument %{}, which has {}", what, low, high, a.arg, arg.elements);
  }

  void expression(size_t i) {
    const Expr& e = k.exprs[i];
    if (static_cast<int>(e.op) >= expr_op_count || e.type > Scalar::f64 || static_cast<int>(e.dtype) >= dtype_count ||
        e.reduction > Reduction::max)
      return add("e{}: unknown operation or type", i);
    std::array<Scalar, 3> types{};
    for (int n = 0; n < expr_arity(e.op); ++n) {
      const int32_t operand = e.in[static_cast<size_t>(n)];
      if (operand < 0 || static_cast<size_t>(operand) >= i)
        return add("e{}: operand {} is not an earlier expression", i, operand);
      types[static_cast<size_t>(n)] = k.exprs[static_cast<size_t>(operand)].type;
    }
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
        access(k.accesses[static_cast<size_t>(e.integer)], k.space, i, false, fmt::format("e{}", i).c_str());
        return;
      }
      case ExprOp::contraction:
        if (!k.contraction) add("e{}: the kernel has no contraction", i);
        if (e.type != Scalar::f32) add("e{}: a contraction is f32", i);
        return;
      case ExprOp::select:
        if (types[0] != Scalar::boolean || types[1] != types[2] || types[1] != e.type) add("e{}: ill-typed select", i);
        return;
      case ExprOp::scan:
        if (k.row_dims != 1 || e.reduction > Reduction::product)
          add("e{}: a scan is a sum or product along one dimension", i);
        [[fallthrough]];
      default:
        if (expr_arity(e.op) == 2 && types[0] != types[1]) return add("e{}: operands of different types", i);
        if (e.type != result_type(e.op, types[0], types[1])) add("e{}: ill-typed {}", i, expr_op_name(e.op));
    }
  }

  void run() {
    if (k.row_dims < 0 || static_cast<size_t>(k.row_dims) > k.space.size())
      return add("row of {} dimensions", k.row_dims);
    int64_t points = 1;
    for (int64_t n : k.space)
      if (n < 0 || (n > 0 && __builtin_mul_overflow(points, n, &points)) || points > (int64_t{1} << 56))
        return add("bad index space {}", to_string(k.space));
    if (k.contraction) contraction(*k.contraction);
    for (size_t i = 0; i < k.exprs.size(); ++i) expression(i);
    for (const Store& s : k.stores) {
      if (s.expr < 0 || static_cast<size_t>(s.expr) >= k.exprs.size())
        add("store of no expression e{}", s.expr);
      else
        access(s.access, k.space, k.exprs.size(), true, "store");
    }
  }

  void contraction(const Contraction& c) {
    if (c.kind > ContractionKind::attention) return add("unknown contraction");
    std::vector<int64_t> dims = k.space;
    for (int64_t n : c.reduce) {
      if (n < 0 || n > (int64_t{1} << 40)) return add("bad reduced extents {}", to_string(c.reduce));
      dims.push_back(n);
    }
    if (k.row_dims != 0) add("a contraction has no row");
    if (!c.a.terms.empty() || !c.b.terms.empty()) return add("a contraction's operands have no index terms");
    if (c.kind == ContractionKind::attention) {
      if (!c.score || c.reduce.size() != 1 || k.space.empty())
        return add("attention needs a score, one reduced dimension, rank 1");
      Checker score{*c.score, args, problems};
      std::vector<int64_t> expected(k.space.begin(), k.space.end() - 1);
      expected.push_back(c.reduce[0]);
      if (c.score->space != expected || !c.score->contraction ||
          c.score->contraction->kind != ContractionKind::matmul || c.score->stores.size() != 1 ||
          !c.score->args.empty())
        return add("attention's score is not a matmul over the queries and keys");
      score.contraction(*c.score->contraction);
      for (size_t i = 0; i < c.score->exprs.size(); ++i) score.expression(i);
      const int32_t expr = c.score->stores[0].expr;
      if (expr < 0 || static_cast<size_t>(expr) >= c.score->exprs.size() ||
          c.score->exprs[static_cast<size_t>(expr)].type != Scalar::f32)
        add("attention's score stores no f32 expression");
    } else {
      access(c.a, dims, 0, false, "operand a");
    }
    access(c.b, dims, 0, false, "operand b");
  }
};

}  // namespace

Scalar scalar_of(DType dtype) {
  if (dtype == DType::boolean) return Scalar::boolean;
  if (dtype == DType::f64) return Scalar::f64;
  return is_float(dtype) ? Scalar::f32 : Scalar::i64;
}

std::string_view expr_op_name(ExprOp op) { return op_rows[static_cast<size_t>(op)].name; }
int expr_arity(ExprOp op) { return op_rows[static_cast<size_t>(op)].arity; }

Scalar result_type(ExprOp op, Scalar first, Scalar second) {
  switch (op) {
    case ExprOp::isnan:
    case ExprOp::logical_not:
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return Scalar::boolean;
    case ExprOp::select:
      return second;
    case ExprOp::index:
      return Scalar::i64;
    case ExprOp::contraction:
      return Scalar::f32;
    default:
      return first;
  }
}

std::string to_text(const Kernel& kernel) {
  std::string text;
  append_text(text, kernel, "");
  return text;
}

uint64_t content_hash(const Kernel& kernel) { return hash_bytes(to_text(kernel)); }

std::vector<std::string> check_kernel(const Kernel& kernel) {
  std::vector<std::string> problems;
  bool writes = false;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    if (arg.elements < 0 || arg.elements > (int64_t{1} << 56) || static_cast<int>(arg.dtype) >= dtype_count)
      problems.push_back(fmt::format("argument %{}: bad size or type", i));
    if (writes && !arg.written) problems.push_back(fmt::format("argument %{}: reads come before writes", i));
    writes = writes || arg.written;
    if (arg.updates >= 0) {
      const auto source = static_cast<size_t>(arg.updates);
      if (!arg.written || source >= i || kernel.args[source].written || kernel.args[source].dtype != arg.dtype ||
          kernel.args[source].elements != arg.elements)
        problems.push_back(fmt::format("argument %{}: cannot update %{}", i, arg.updates));
    }
  }
  Checker{kernel, kernel.args, problems}.run();
  return problems;
}

}  // namespace npusim
