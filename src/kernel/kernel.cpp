// Names, typing, text form and hash of kernel IR.
#include "kernel/kernel.h"

#include <fmt/format.h>

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

}  // namespace

Scalar scalar_of(DType dtype) {
  if (dtype == DType::boolean) return Scalar::boolean;
  if (dtype == DType::f64) return Scalar::f64;
  return is_float(dtype) ? Scalar::f32 : Scalar::i64;
}

std::string_view expr_op_name(ExprOp op) { return op_rows[static_cast<size_t>(op)].name; }
std::string_view scalar_name(Scalar type) { return scalar_names[static_cast<size_t>(type)]; }
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

}  // namespace npusim
