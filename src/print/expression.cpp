// Text of single expressions: literals, conversions, operators, addresses.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernel/facts/depend.h"
#include "kernel/facts/range.h"
#include "print/writer.h"

namespace npusim {
namespace {

std::string_view integer_helper(ExprOp op) {
  switch (op) {
    case ExprOp::add:
      return "wrap_add";
    case ExprOp::sub:
      return "wrap_sub";
    case ExprOp::mul:
      return "wrap_mul";
    case ExprOp::pow:
      return "int_pow";
    case ExprOp::shl:
      return "int_shl";
    case ExprOp::shr:
      return "int_shr";
    default:
      return "";
  }
}

std::string float_literal(double value, bool is_double) {
  if (std::isnan(value)) return is_double ? "(double)NAN" : "NAN";
  if (std::isinf(value)) return fmt::format("({}{}INFINITY)", value < 0 ? "-" : "", is_double ? "(double)" : "");
  std::string text = is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (!is_double) text += "f";
  return text[0] == '-' ? "(" + text + ")" : text;
}

}  // namespace

std::string_view operator_of(ExprOp op) {
  switch (op) {
    case ExprOp::add:
      return "+";
    case ExprOp::sub:
      return "-";
    case ExprOp::mul:
      return "*";
    case ExprOp::div:
      return "/";
    case ExprOp::eq:
      return "==";
    case ExprOp::ne:
      return "!=";
    case ExprOp::lt:
      return "<";
    case ExprOp::le:
      return "<=";
    case ExprOp::bit_and:
      return "&";
    case ExprOp::bit_or:
      return "|";
    case ExprOp::bit_xor:
      return "^";
    case ExprOp::idiv:
      return "/";
    case ExprOp::irem:
      return "%";
    default:
      return "";
  }
}

std::string_view find_call(const Dialect& dialect, ExprOp op, Scalar type) {
  for (const Dialect::Call& call : dialect.calls)
    if (call.op == op) return type == Scalar::f64 ? call.f64 : type == Scalar::f32 ? call.f32 : std::string_view{};
  return {};
}

Term KernelWriter::literal(const Expr& e, bool narrow) const {
  if (e.type == Scalar::boolean) return e.integer ? "true" : "false";
  if (e.type == Scalar::f32) return float_literal(static_cast<float>(e.number), false);
  if (e.type == Scalar::f64) return float_literal(e.number, true);
  const std::string suffix = narrow ? "" : std::string(d_.long_suffix);
  if (e.integer == std::numeric_limits<int64_t>::min()) return term("(-9223372036854775807{0} - 1)", suffix);
  return e.integer < 0 ? term("({}{})", e.integer, suffix) : term("{}{}", e.integer, suffix);
}

std::string KernelWriter::zero(Scalar type) const {
  return type == Scalar::boolean ? "false" : type == Scalar::i64 ? "0" : type == Scalar::f32 ? "0.0f" : "0.0";
}

std::string KernelWriter::index_number(int64_t value) const {
  return p_.wide ? fmt::format("{}{}", value, d_.long_suffix) : fmt::format("{}", value);
}

Term KernelWriter::name(int32_t id) const {
  const Expr& e = k_.exprs[static_cast<size_t>(id)];
  switch (e.op) {
    case ExprOp::constant:
      return literal(e, p_.narrow[static_cast<size_t>(id)]);
    case ExprOp::index:
      return term("i{}", e.integer);
    case ExprOp::load:
      return term("x_{}", id);
    case ExprOp::reduce:
      return term("{}_{}{}", reduction_name(e.reduction), id, varies(id) ? "[lane]" : "");
    case ExprOp::scan:
      return term("cum{}_{}", reduction_name(e.reduction), id);
    default:
      return term("{}_{}", expr_op_name(e.op), id);
  }
}

std::string KernelWriter::type_of(int32_t id) const {
  const auto i = static_cast<size_t>(id);
  return std::string(p_.narrow[i] ? d_.narrow : d_.scalars[static_cast<size_t>(k_.exprs[i].type)]);
}

// For functions that are overloaded on the type; operators promote by themselves.
Term KernelWriter::as_long(int32_t id) const {
  if (!p_.narrow[static_cast<size_t>(id)]) return name(id);
  return term("({}){}", d_.scalars[static_cast<size_t>(Scalar::i64)], name(id));
}

Term KernelWriter::convert(const Term& value, Scalar from, Scalar to, bool narrow) const {
  if (from == to) return value;
  if (to == Scalar::boolean) return term("({} != {})", value, zero(from));
  if (to == Scalar::i64 && from >= Scalar::f32)
    return term("{}({})", from == Scalar::f32 ? "to_integer" : "to_integer_double", value.text);
  return term("({}){}", narrow ? d_.narrow : d_.scalars[static_cast<size_t>(to)], value);
}

Term KernelWriter::loaded(DType dtype, const Term& element) const {
  return Term(fmt::format(fmt::runtime(d_.elements[static_cast<size_t>(dtype)].load), element));
}
Term KernelWriter::stored(DType dtype, const Term& value) const {
  return Term(fmt::format(fmt::runtime(d_.elements[static_cast<size_t>(dtype)].store), value));
}

Term KernelWriter::combine(Reduction reduction, Scalar type, const Term& a, const Term& b) const {
  const bool integers = type == Scalar::i64, add = reduction == Reduction::sum, mul = reduction == Reduction::product;
  if (add || mul)
    return integers ? term("{}({}, {})", add ? "wrap_add" : "wrap_mul", a.text, b.text)
                    : term("{} {} {}", a, add ? "+" : "*", b);
  const char* which = reduction == Reduction::min ? "min" : "max";
  if (integers) return term("{0}({1}, ({3}){2})", which, a.text, b, d_.scalars[static_cast<size_t>(Scalar::i64)]);
  return term("nan_{}{}({}, {})", which, type == Scalar::f64 ? "_double" : "", a.text, b.text);
}

// log(exp(a) + exp(b)): of what is equal, infinities too, no difference is taken.
Term KernelWriter::log_of_both(Scalar type, const Term& a, const Term& b) const {
  const std::string low = combine(Reduction::min, type, a, b).text, high = combine(Reduction::max, type, a, b).text;
  const std::string_view two = type == Scalar::f32 ? "0.69314718f" : "0.69314718055994531";
  return term("{0} == {1} ? {0} + {2} : {3} + {4}({5}({6} - {3}))", a.text, b.text, two, high,
              find_call(d_, ExprOp::log1p, type), find_call(d_, ExprOp::exp, type), low);
}

Term KernelWriter::identity(Reduction reduction, Scalar type) const {
  Expr e{.op = ExprOp::constant, .type = type};
  e.integer = reduction == Reduction::sum ? 0 : 1;
  if (reduction == Reduction::min) e.integer = std::numeric_limits<int64_t>::max();
  if (reduction == Reduction::max) e.integer = std::numeric_limits<int64_t>::min();
  e.number = static_cast<double>(e.integer);
  if (reduction == Reduction::min) e.number = INFINITY;
  if (reduction == Reduction::max) e.number = -INFINITY;
  return literal(e, false);
}

Term KernelWriter::affine(int64_t offset, const std::vector<int64_t>& coeffs) const {
  Term sum;
  for (size_t d = 0; d < k_.space.size(); ++d) {
    if (!coeffs[d]) continue;
    const int64_t factor = std::abs(coeffs[d]);
    const Term one = factor == 1 ? term("i{}", d) : term("i{} * {}", d, index_number(factor));
    if (sum.empty())
      sum = coeffs[d] < 0 ? term("-{:*}", one) : one;
    else
      sum = coeffs[d] < 0 ? term("{:+} - {:*}", sum, one) : term("{:+} + {:*}", sum, one);
  }
  if (sum.empty()) return offset ? index_number(offset) : "0";
  if (offset == 0) return sum;
  const std::string number = index_number(std::abs(offset));
  return offset < 0 ? term("{:+} - {}", sum, number) : term("{:+} + {}", sum, number);
}

Term KernelWriter::element_index(const Access& a, int code, std::string& condition) {
  const std::string index_type(p_.wide ? d_.scalars[static_cast<size_t>(Scalar::i64)] : d_.narrow);
  auto require = [&](const std::string& text) { condition += condition.empty() ? text : " && " + text; };
  Term at = affine(a.offset, a.strides);
  const auto add = [&](const Term& coordinate, int64_t stride) {
    if (stride == 0) return;
    const int64_t apart = std::abs(stride);
    const Term more = apart == 1 ? coordinate : term("{:*} * {}", coordinate, index_number(apart));
    if (at.text == "0")
      at = stride < 0 ? term("-{}", more) : more;
    else
      at = stride < 0 ? term("{:+} - {:*}", at, more) : term("{:+} + {:+}", at, more);
  };
  for (const Guard& g : a.guards) {
    Term coordinate = affine(g.offset, g.coeffs);
    if (coordinate.binds != Binding::primary) {
      std::string& known = scope_.coordinates[coordinate.text];
      if (known.empty()) {
        known = fmt::format("at{}", coordinates_++);
        line(fmt::format("const {} {} = {};", index_type, known, coordinate.text));
      }
      coordinate = known;
    }
    const Range r = *range_of(g.offset, g.coeffs, k_.space);  // the kernel is checked
    if (r.low < 0) require(fmt::format("{} >= 0", coordinate));
    if (r.high >= g.limit) require(fmt::format("{} < {}", coordinate, index_number(g.limit)));
    add(coordinate, g.stride);
  }
  for (const IndexTerm& t : a.terms) {
    require(fmt::format("check_index({}, {}, trap, {})", name(t.expr).text, t.extent, context_.first_trap + code++));
    const bool cast = !p_.wide && !p_.narrow[static_cast<size_t>(t.expr)];
    add(cast ? term("({}){}", d_.narrow, name(t.expr)) : name(t.expr), t.stride);
  }
  return at;
}

// An updated argument is read through the pointer that writes it: one buffer, one name.
std::string KernelWriter::pointer(int of) const {
  int arg = of, reads = 0, writes = 0;
  for (size_t i = 0; i < k_.args.size(); ++i)
    if (k_.args[i].updates == of) arg = static_cast<int>(i);
  for (int i = 0; i < arg; ++i) (k_.args[static_cast<size_t>(i)].written ? writes : reads)++;
  const bool written = k_.args[static_cast<size_t>(arg)].written;
  return fmt::format("{}{}", written ? "out" : "in", written ? writes : reads);
}

Term KernelWriter::element(const Access& a, int code, std::string& condition) {
  const Term at = element_index(a, code, condition);
  return term("{}[{}]", pointer(a.arg), at.text);
}

Term KernelWriter::load(int32_t id) {
  const Expr& e = k_.exprs[static_cast<size_t>(id)];
  if (is_absent(id)) return zero(e.type);
  const Access& a = k_.accesses[static_cast<size_t>(e.integer)];
  const DType dtype = k_.args[static_cast<size_t>(a.arg)].dtype;
  std::string condition;
  const Term memory = word_loads_[static_cast<size_t>(id)]
                          ? word_element(id)
                          : element(a, first_trap_code(k_, static_cast<size_t>(e.integer), false), condition);
  const Term value = convert(loaded(dtype, memory), scalar_of(dtype), e.type, p_.narrow[static_cast<size_t>(id)]);
  return condition.empty() ? value : term("{} ? {:*} : {}", condition, value, zero(e.type));
}

// What ends in 16 bits need not be computed to float32's last one; "" where the language has nothing shorter.
Term KernelWriter::near(int32_t id) const {
  const Expr& e = k_.exprs[static_cast<size_t>(id)];
  if (!p_.ends.coarse[static_cast<size_t>(id)]) return {};
  const auto apply = [&](std::string_view form) {
    if (form.empty()) return Term();
    return Term(fmt::format(fmt::runtime(form), name(e.in[0]), e.op == ExprOp::div ? name(e.in[1]) : Term()));
  };
  if (e.op == ExprOp::exp)
    return apply(p_.ends.next_to_one[static_cast<size_t>(id)] ? d_.exp_next_to_one : d_.exp_near);
  if (e.op == ExprOp::div && p_.ends.at_least_one[static_cast<size_t>(e.in[1])]) return apply(d_.quotient_near);
  return {};
}

Term KernelWriter::unary(const Expr& e, const Term& a, bool narrow) const {
  const Scalar in = k_.exprs[static_cast<size_t>(e.in[0])].type;
  if (e.op == ExprOp::isnan && in < Scalar::f32) return "false";
  if (e.op == ExprOp::require)
    return term("required({}, trap, {})", a.text, context_.first_trap + required_trap_code(k_));
  if (e.op == ExprOp::logical_not) return in == Scalar::boolean ? term("!{}", a) : term("{} == {}", a, zero(in));
  if (in == Scalar::i64 && e.op == ExprOp::neg) return narrow ? term("-{}", a) : term("wrap_sub(0, {})", a.text);
  if (in == Scalar::i64) return term("wrap_abs({})", a.text);
  if (e.op == ExprOp::neg) return term("-{}", a);
  return term("{}({})", find_call(d_, e.op, in), a.text);
}

Term KernelWriter::binary(const Expr& e, bool narrow) {
  const Term a = name(e.in[0]), b = name(e.in[1]);
  const Expr& right = k_.exprs[static_cast<size_t>(e.in[1])];
  const Scalar in = right.type;
  if (quick_ && e.op == ExprOp::div && in == Scalar::f32) {
    divided_ = true;
    return term("quotient({}, {}, least, most)", a.text, b.text);
  }
  const bool is_min = e.op == ExprOp::min;
  if (in == Scalar::boolean && e.op == ExprOp::bit_and) return term("{} && {}", a, b);
  if (in == Scalar::boolean && e.op == ExprOp::bit_or) return term("{} || {}", a, b);
  if (in == Scalar::boolean && e.op == ExprOp::bit_xor) return term("{} != {}", a, b);
  if (is_min || e.op == ExprOp::max) {
    if (in >= Scalar::f32) return combine(is_min ? Reduction::min : Reduction::max, in, a, b);
    return term("{}({}, {})", is_min ? "min" : "max", (narrow ? a : as_long(e.in[0])).text,
                (narrow ? b : as_long(e.in[1])).text);
  }
  if (in >= Scalar::f32) {
    if (const std::string_view call = find_call(d_, e.op, in); !call.empty())
      return term("{}({}, {})", call, a.text, b.text);
  } else if (e.op == ExprOp::idiv || e.op == ExprOp::irem) {
    const bool divides = e.op == ExprOp::idiv;
    if (can_trap(k_, e))
      return term("{}({}, {}, trap, {})", divides ? "int_div" : "int_rem", a.text, b.text, context_.first_trap + 1);
    if (right.integer == -1) return divides ? term("wrap_sub(0, {})", a.text) : "0";
  } else if (!narrow && !integer_helper(e.op).empty()) {
    return term("{}({}, {})", integer_helper(e.op), a.text, b.text);
  }
  return term("{} {} {}", a, operator_of(e.op), b);
}

Term KernelWriter::rounded(const Expr& e) const {
  const Scalar in = k_.exprs[static_cast<size_t>(e.in[0])].type, through = scalar_of(e.dtype);
  return convert(loaded(e.dtype, stored(e.dtype, convert(name(e.in[0]), in, through))), through, e.type);
}

Term KernelWriter::expression(int32_t id) {
  const Expr& e = k_.exprs[static_cast<size_t>(id)];
  const bool narrow = p_.narrow[static_cast<size_t>(id)];
  if (const Term shorter = near(id); !shorter.empty()) return shorter;
  switch (e.op) {
    case ExprOp::load:
      return load(id);
    case ExprOp::contraction:
      return e.integer ? Term(context_.second_leaf) : Term(context_.leaf);
    case ExprOp::select:
      return term("{} ? {} : {}", name(e.in[0]), name(e.in[1]), name(e.in[2]));
    case ExprOp::cast:
      return convert(name(e.in[0]), k_.exprs[static_cast<size_t>(e.in[0])].type, e.type, narrow);
    case ExprOp::round_to:
      return rounded(e);
    case ExprOp::scan:
      return e.integer ? log_of_both(e.type, name(id), name(e.in[0]))
                       : combine(e.reduction, e.type, name(id), name(e.in[0]));
    default:
      return expr_arity(e.op) == 1 ? unary(e, name(e.in[0]), narrow) : binary(e, narrow);
  }
}

}  // namespace npusim
