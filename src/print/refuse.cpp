// Which kernels a dialect can express, and what a kernel's trap word says.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/facts/depend.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/order.h"
#include "print/writer.h"

namespace npusim {
namespace {

// Whether every dialect has the operation for these operands: what is of integers or booleans is an operator or one of
// the shared helpers, and so are a few of floats.
bool is_common(ExprOp op, Scalar type) {
  if (!has_meaning(op, type)) return false;
  switch (op) {
    case ExprOp::neg:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::reduce:
    case ExprOp::scan:
    case ExprOp::select:
    case ExprOp::cast:
    case ExprOp::round_to:
      return true;
    default:
      return type < Scalar::f32 || !operator_of(op).empty();
  }
}

constexpr std::string_view scalar_names[] = {"booleans", "integers", "float32", "float64"};

}  // namespace

std::optional<std::string> cannot_print(const Kernel& k, const Dialect& d, const Schedule& schedule) {
  if (k.contraction) return "it holds a contraction, which is printed as unfuse() spells it out";
  if (has_order(k)) return "it orders rows, which is printed as unfuse() spells it out";
  if (has_fourier(k)) return "it transforms rows, which is printed as unfuse() spells it out";
  for (size_t i = 0; i < k.args.size(); ++i)
    if (d.elements[static_cast<size_t>(k.args[i].dtype)].type.empty())
      return fmt::format("{} has no type for {} (argument %{})", d.name, dtype_name(k.args[i].dtype), i);
  const auto args = static_cast<int>(k.args.size()) + takes_trap(k);
  if (args > d.max_args) return fmt::format("{} arguments, {} takes {}", args, d.name, d.max_args);
  const std::vector<bool> live = live_expressions(k, true);
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (!live[i]) continue;
    if (d.scalars[static_cast<size_t>(e.type)].empty())
      return fmt::format("e{} is {}, which {} does not have", i, scalar_names[static_cast<size_t>(e.type)], d.name);
    if (e.op == ExprOp::round_to && d.elements[static_cast<size_t>(e.dtype)].type.empty())
      return fmt::format("e{} rounds to {}, which {} does not have", i, dtype_name(e.dtype), d.name);
    if (expr_arity(e.op) == 0) continue;
    const Scalar in = k.exprs[static_cast<size_t>(e.in[0])].type;
    if (!is_common(e.op, in) && find_call(d, e.op, in).empty())
      return fmt::format("e{}: {} has no {} of {}", i, d.name, expr_op_name(e.op),
                         scalar_names[static_cast<size_t>(in)]);
    if (e.op == ExprOp::scan && e.integer &&
        (find_call(d, ExprOp::exp, in).empty() || find_call(d, ExprOp::log1p, in).empty()))
      return fmt::format("e{}: {} has no logs of sums of {}", i, d.name, scalar_names[static_cast<size_t>(in)]);
  }
  if (auto reason = cannot_schedule(k, d, schedule)) return reason;
  return std::nullopt;
}

std::optional<std::string> cannot_print(const Kernel& k, const Dialect& d) {
  return cannot_print(k, d, choose_schedule(k, d));
}

bool takes_trap(const Kernel& k) {
  return std::any_of(k.exprs.begin(), k.exprs.end(), [&](const Expr& e) { return can_trap(k, e); }) ||
         std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return !s.access.terms.empty(); });
}

int first_trap_code(const Kernel& k, size_t number, bool is_store) {
  size_t code = 2;
  for (size_t i = 0; i < (is_store ? k.accesses.size() : number); ++i) code += k.accesses[i].terms.size();
  if (is_store)
    for (size_t i = 0; i < number; ++i) code += k.stores[i].access.terms.size();
  return static_cast<int>(code);
}

int required_trap_code(const Kernel& k) { return first_trap_code(k, k.stores.size(), true); }

int trap_count(const Kernel& k) {
  return required_trap_code(k) -
         std::none_of(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::require; });
}

std::string trap_message(const Kernel& k, int code) {
  if (code == 1) return "integer division by zero";
  auto at = static_cast<size_t>(code) - 2;
  auto find = [&](const Access& a) -> std::optional<std::string> {
    if (at < a.terms.size())
      return fmt::format("an index is out of range for a dimension of {} of argument %{}", a.terms[at].extent, a.arg);
    at -= a.terms.size();
    return std::nullopt;
  };
  for (const Access& a : k.accesses)
    if (auto text = find(a)) return *text;
  for (const Store& s : k.stores)
    if (auto text = find(s.access)) return *text;
  return at == 0 ? requirement_message(k) : fmt::format("unknown trap {}", code);
}

}  // namespace npusim
