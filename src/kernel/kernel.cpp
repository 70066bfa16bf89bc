// Names, typing, text form and hash of kernel IR.
#include "kernel/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace npusim {
namespace {

// Sets of Scalars, as bits.
constexpr uint8_t booleans = 1, integers = 2, floats = 4 | 8, bits = booleans | integers, numbers = integers | floats,
                  any = booleans | numbers;

// The type of a result: a fixed one, or that of the first or second operand.
enum class Result : uint8_t { boolean, i64, f32, first, second };

// All that is known of an operation but what it computes.
struct OpRow {
  std::string_view name;
  int arity;
  uint8_t operands;  // the types it has a meaning for; there is no arithmetic of booleans
  Result result;
};
constexpr std::array<OpRow, expr_op_count> op_rows{{
    {"constant", 0, any, Result::first},
    {"index", 0, any, Result::i64},
    {"load", 0, any, Result::first},
    {"contraction", 0, any, Result::f32},
    {"neg", 1, numbers, Result::first},
    {"abs", 1, numbers, Result::first},
    {"exp", 1, floats, Result::first},
    {"exp2", 1, floats, Result::first},
    {"expm1", 1, floats, Result::first},
    {"log", 1, floats, Result::first},
    {"log2", 1, floats, Result::first},
    {"log10", 1, floats, Result::first},
    {"log1p", 1, floats, Result::first},
    {"sqrt", 1, floats, Result::first},
    {"rsqrt", 1, floats, Result::first},
    {"sin", 1, floats, Result::first},
    {"cos", 1, floats, Result::first},
    {"tan", 1, floats, Result::first},
    {"asin", 1, floats, Result::first},
    {"acos", 1, floats, Result::first},
    {"atan", 1, floats, Result::first},
    {"sinh", 1, floats, Result::first},
    {"cosh", 1, floats, Result::first},
    {"tanh", 1, floats, Result::first},
    {"asinh", 1, floats, Result::first},
    {"acosh", 1, floats, Result::first},
    {"atanh", 1, floats, Result::first},
    {"erf", 1, floats, Result::first},
    {"erfc", 1, floats, Result::first},
    {"floor", 1, floats, Result::first},
    {"ceil", 1, floats, Result::first},
    {"round", 1, floats, Result::first},
    {"trunc", 1, floats, Result::first},
    {"isnan", 1, floats, Result::boolean},
    {"not", 1, booleans, Result::boolean},
    {"add", 2, numbers, Result::first},
    {"sub", 2, numbers, Result::first},
    {"mul", 2, numbers, Result::first},
    {"div", 2, floats, Result::first},
    {"min", 2, numbers, Result::first},
    {"max", 2, numbers, Result::first},
    {"pow", 2, numbers, Result::first},
    {"fmod", 2, floats, Result::first},
    {"atan2", 2, floats, Result::first},
    {"idiv", 2, integers, Result::first},
    {"irem", 2, integers, Result::first},
    {"and", 2, bits, Result::first},
    {"or", 2, bits, Result::first},
    {"xor", 2, bits, Result::first},
    {"shl", 2, integers, Result::first},
    {"shr", 2, integers, Result::first},
    {"eq", 2, any, Result::boolean},
    {"ne", 2, any, Result::boolean},
    {"lt", 2, any, Result::boolean},
    {"le", 2, any, Result::boolean},
    {"select", 3, any, Result::second},
    {"cast", 1, any, Result::first},
    {"round_to", 1, any, Result::first},
    {"reduce", 1, numbers, Result::first},
    {"scan", 1, numbers, Result::first},
    {"order", 1, any, Result::i64},
    {"require", 1, booleans, Result::first},
    {"fourier_re", 2, floats, Result::first},
    {"fourier_im", 2, floats, Result::first},
    {"fourier_signal", 2, floats, Result::first},
}};
constexpr std::array<std::string_view, requirement_count> requirements{
    "a probability is not in [0, 1]", "weights of categories are negative, not finite, or all 0",
    "a standard deviation is negative", "a length is not that of a sequence that is there",
    "an assertion does not hold: one of the model's own, or a size or a number that values decide is not the one the "
    "program is made for"};

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

void append_exprs(std::string& out, const std::vector<Expr>& exprs, const std::vector<Access>& accesses,
                  std::string_view indent) {
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Expr& e = exprs[i];
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
      case ExprOp::contraction:
        if (e.integer) out += " log";
        break;
      case ExprOp::require:
        out += fmt::format(" {}", e.integer);
        break;
      case ExprOp::load:
        out += " " + text_of(accesses[static_cast<size_t>(e.integer)]);
        break;
      case ExprOp::round_to:
        out += fmt::format(" {}", dtype_name(e.dtype));
        break;
      case ExprOp::reduce:
      case ExprOp::scan:
      case ExprOp::order:
        out += fmt::format(" {}{}", e.op == ExprOp::scan && e.integer ? "log " : "", reduction_name(e.reduction));
        break;
      default:
        break;
    }
    for (int operand = 0; operand < expr_arity(e.op); ++operand)
      out += fmt::format(" e{}", e.in[static_cast<size_t>(operand)]);
    out += fmt::format(" : {}\n", scalar_names[static_cast<size_t>(e.type)]);
  }
}

void append_contraction(std::string& out, const Contraction& c) {
  out += fmt::format("{} over {}{}\n", contraction_names[static_cast<size_t>(c.kind)], to_string(c.reduce),
                     c.masked_rows_are_zero ? " safe" : "");
  if (c.kind != ContractionKind::attention) out += fmt::format("  a {}\n", text_of(c.a));
  out += fmt::format("  b {}\n", text_of(c.b));
  if (!c.score) return;
  const Score& score = *c.score;
  out += fmt::format("  score {} over {}\n    a {}\n    b {}\n", to_string(score.space), to_string(score.reduce),
                     text_of(score.a), text_of(score.b));
  append_exprs(out, score.exprs, score.accesses, "    ");
  out += fmt::format("    score = e{}\n", score.result);
  if (score.keys >= 0) out += fmt::format("    keys = e{}\n", score.keys);
}

std::string text_of(const CallArgument& argument) {
  switch (argument.kind) {
    case CallKind::none:
      return "None";
    case CallKind::tensor:
    case CallKind::tensors: {
      std::vector<std::string> names;
      for (const int32_t tensor : argument.tensors) names.push_back(tensor < 0 ? "None" : fmt::format("t{}", tensor));
      return argument.kind == CallKind::tensor ? names[0] : fmt::format("[{}]", fmt::join(names, ", "));
    }
    case CallKind::boolean:
      return argument.integers[0] ? "true" : "false";
    case CallKind::integer:
      return std::to_string(argument.integers[0]);
    case CallKind::real:
      return fmt::format("real {}", argument.reals[0]);
    case CallKind::text:
      return fmt::format("text {} {}", argument.text.size(), argument.text);
    case CallKind::dtype:
      return argument.text;
    case CallKind::integers:
      return fmt::format("[{}]", fmt::join(argument.integers, ", "));
    case CallKind::reals:
      return fmt::format("reals [{}]", fmt::join(argument.reals, ", "));
    case CallKind::booleans:
      return fmt::format("booleans [{}]", fmt::join(argument.integers, ", "));
  }
  return {};
}

void append_call(std::string& out, const Call& call) {
  const auto tensors = [&](const std::vector<CallTensor>& list) {
    std::vector<std::string> texts;
    for (const CallTensor& tensor : list) texts.push_back(fmt::format("%{}{}", tensor.arg, to_string(tensor.shape)));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  out += fmt::format("call {} of {} -> {}\n", call.op, tensors(call.operands), tensors(call.results));
  for (const CallArgument& argument : call.arguments) out += fmt::format("  {}\n", text_of(argument));
}

}  // namespace

Scalar scalar_of(DType dtype) {
  if (dtype == DType::boolean) return Scalar::boolean;
  if (dtype == DType::f64) return Scalar::f64;
  return is_float(dtype) ? Scalar::f32 : Scalar::i64;
}

std::string_view requirement_message(int64_t requirement) { return requirements[static_cast<size_t>(requirement)]; }

std::string requirement_message(const Kernel& k) {
  std::string text;
  for (int64_t n = 0; n < requirement_count; ++n)
    if (std::any_of(k.exprs.begin(), k.exprs.end(),
                    [&](const Expr& e) { return e.op == ExprOp::require && e.integer == n; }))
      text += fmt::format("{}{}", text.empty() ? "" : ", or ", requirement_message(n));
  return text;
}

std::string_view expr_op_name(ExprOp op) { return op_rows[static_cast<size_t>(op)].name; }
std::string_view scalar_name(Scalar type) { return scalar_names[static_cast<size_t>(type)]; }
std::string_view reduction_name(Reduction reduction) { return reduction_names[static_cast<size_t>(reduction)]; }
int expr_arity(ExprOp op) { return op_rows[static_cast<size_t>(op)].arity; }

bool has_meaning(ExprOp op, Scalar operand) {
  return (op_rows[static_cast<size_t>(op)].operands >> static_cast<int>(operand) & 1) != 0;
}

Scalar result_type(ExprOp op, Scalar first, Scalar second) {
  switch (op_rows[static_cast<size_t>(op)].result) {
    case Result::boolean:
      return Scalar::boolean;
    case Result::i64:
      return Scalar::i64;
    case Result::f32:
      return Scalar::f32;
    case Result::second:
      return second;
    case Result::first:
      break;
  }
  return first;
}

std::string to_text(const Kernel& k) {
  std::string text = fmt::format("space {} row {}\n", to_string(k.space), k.row_dims);
  for (size_t i = 0; i < k.args.size(); ++i) {
    const KernelArg& arg = k.args[i];
    text += fmt::format("%{} = {} {} x{}", i, arg.written ? "write" : "read", dtype_name(arg.dtype), arg.elements);
    text += arg.updates >= 0 ? fmt::format(" updates %{}\n", arg.updates) : "\n";
  }
  if (k.call) append_call(text, *k.call);
  if (k.contraction) append_contraction(text, *k.contraction);
  append_exprs(text, k.exprs, k.accesses, "");
  for (const Store& s : k.stores)
    text += fmt::format("{}{} {} = e{}\n", s.accumulate ? "accumulate " : "store",
                        s.accumulate ? reduction_name(s.reduction) : "", text_of(s.access), s.expr);
  return text;
}

uint64_t content_hash(const Kernel& kernel) { return hash_bytes(to_text(kernel)); }

}  // namespace npusim
