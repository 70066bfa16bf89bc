// Matchers of expression DAGs.
#include "passes/recognize.h"

#include <algorithm>
#include <limits>

#include "kernel/facts/match_expr.h"
#include "passes/pass.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Match : ExprMatcher {
  bool reduces(int32_t id, Reduction r) const { return is(id, ExprOp::reduce) && at(id).reduction == r; }

  bool square(int32_t id) const {
    const Expr& e = at(uncast(id));
    return (e.op == ExprOp::mul && uncast(e.in[0]) == uncast(e.in[1])) ||
           (e.op == ExprOp::pow && is_constant(e.in[1], 2));
  }

  bool silu_mul() const {
    for (const Expr& e : kernel.exprs)
      if (e.op == ExprOp::mul && e.in[0] != e.in[1])
        for (int side : {0, 1})
          if (const int32_t x = silu(e.in[static_cast<size_t>(side)]);
              x >= 0 && uncast(e.in[static_cast<size_t>(1 - side)]) != x)
            return true;
    return false;
  }

  bool centered(int32_t id) const {  // (y − …)²
    const Expr& e = at(uncast(id));
    return e.op == ExprOp::mul && e.in[0] == e.in[1] && is(uncast(e.in[0]), ExprOp::sub);
  }
  // rsqrt or sqrt of something a sum of squares is part of.
  int norm() const {  // 0 none, 1 rms, 2 layer
    bool root = false;
    int kind = 0;
    for (const Expr& e : kernel.exprs) {
      root = root || e.op == ExprOp::rsqrt || e.op == ExprOp::sqrt;
      if (e.op == ExprOp::reduce && e.reduction == Reduction::sum) {
        if (centered(e.in[0]))
          kind = 2;
        else if (square(e.in[0]) && kind == 0)
          kind = 1;
      }
    }
    if (!root) return 0;
    const bool varies = std::any_of(kernel.stores.begin(), kernel.stores.end(), [&](const Store& s) {
      return std::any_of(s.access.strides.end() - kernel.row_dims, s.access.strides.end(),
                         [](int64_t stride) { return stride != 0; });
    });
    return varies ? kind : 0;
  }

  bool softmax() const {
    bool safe = false;
    return std::any_of(kernel.stores.begin(), kernel.stores.end(),
                       [&](const Store& s) { return softmax_argument(kernel, s.expr, safe) >= 0; });
  }

  // x·cos + rotate_half(x)·sin: a sum of two products, one of them of a select between a load and a negated load.
  bool rope() const {
    for (const Expr& e : kernel.exprs) {
      if (e.op != ExprOp::add || e.type < Scalar::f32) continue;
      for (int side : {0, 1}) {
        const int32_t plain = uncast(e.in[static_cast<size_t>(side)]),
                      rotated = uncast(e.in[static_cast<size_t>(1 - side)]);
        if (!is(plain, ExprOp::mul) || !is(rotated, ExprOp::mul)) continue;
        for (int32_t half : {uncast(at(rotated).in[0]), uncast(at(rotated).in[1])})
          if (is(half, ExprOp::select) && (negated_load(at(half).in[1]) || negated_load(at(half).in[2]))) return true;
      }
    }
    return false;
  }
  bool negated_load(int32_t id) const {
    id = uncast(id);
    return is(id, ExprOp::neg) && is(uncast(at(id).in[0]), ExprOp::load);
  }
};

}  // namespace

int32_t softmax_argument(const Kernel& kernel, int32_t stored, bool& safe) {
  const Match m{{kernel}};
  safe = false;
  int32_t id = m.uncast(stored);
  if (m.is(id, ExprOp::select)) {  // select(max == −inf, 0, softmax) and its mirror
    for (int side : {1, 2})
      if (m.is_constant(m.at(id).in[static_cast<size_t>(side)], 0)) {
        safe = true;
        const int32_t condition = m.at(id).in[0];
        if (!m.is(condition, ExprOp::eq) && !m.is(condition, ExprOp::ne)) return -1;
        id = m.uncast(m.at(id).in[static_cast<size_t>(3 - side)]);
        break;
      }
  }
  if (!m.is(id, ExprOp::div) && !m.is(id, ExprOp::mul)) return -1;
  const int32_t power = m.uncast(m.at(id).in[0]);
  int32_t sum = m.uncast(m.at(id).in[1]);
  if (m.is(id, ExprOp::mul)) {
    if (!m.is(sum, ExprOp::div) || !m.is_constant(m.at(sum).in[0], 1)) return -1;
    sum = m.uncast(m.at(sum).in[1]);
  }
  if (!m.is(power, ExprOp::exp) || !m.reduces(sum, Reduction::sum) || m.uncast(m.at(sum).in[0]) != power) return -1;
  const int32_t difference = m.uncast(m.at(power).in[0]);
  if (!m.is(difference, ExprOp::sub)) return -1;
  const int32_t x = m.at(difference).in[0];
  int32_t top = m.uncast(m.at(difference).in[1]);
  if (m.is(top, ExprOp::select)) {  // a maximum of −inf replaced by 0
    for (int side : {1, 2})
      if (m.reduces(m.uncast(m.at(top).in[static_cast<size_t>(side)]), Reduction::max)) {
        top = m.uncast(m.at(top).in[static_cast<size_t>(side)]);
        break;
      }
  }
  if (!m.reduces(top, Reduction::max) || m.uncast(m.at(top).in[0]) != m.uncast(x)) return -1;
  return x;
}

int32_t log_sum_exp_argument(const Kernel& kernel, int32_t stored) {
  const Match m{{kernel}};
  const int32_t chosen = m.uncast(stored);
  if (!m.is(chosen, ExprOp::select)) return -1;
  const auto [condition, top, total] = m.at(chosen).in;
  if (!m.reduces(top, Reduction::max) || m.other_than_constant(condition, ExprOp::eq, -infinity) != top) return -1;
  const int32_t log = m.other_operand(m.uncast(total), ExprOp::add, top);
  if (!m.is(log, ExprOp::log) || !m.reduces(m.at(log).in[0], Reduction::sum)) return -1;
  const int32_t power = m.at(m.at(log).in[0]).in[0], x = m.at(top).in[0];
  if (!m.is(power, ExprOp::exp)) return -1;
  const Expr& difference = m.at(m.at(power).in[0]);
  return difference.op == ExprOp::sub && difference.in[0] == x && difference.in[1] == top ? x : -1;
}

std::vector<std::string> recognize(const Kernel& kernel) {
  std::vector<std::string> names;
  if (kernel.contraction && kernel.contraction->kind == ContractionKind::attention) names.emplace_back("attention");
  const Match m{{kernel}};
  if (m.silu_mul()) names.emplace_back("silu_mul");
  if (m.rope()) names.emplace_back("rope");
  if (kernel.row_dims > 0) {
    if (m.softmax()) names.emplace_back("softmax");
    if (const int norm = m.norm()) names.emplace_back(norm == 1 ? "rms_norm" : "layer_norm");
  }
  return names;
}

bool is_copy_or_cast(const Kernel& kernel) {
  if (kernel.contraction || kernel.row_dims || kernel.stores.size() != 1) return false;
  return std::all_of(kernel.exprs.begin(), kernel.exprs.end(), [](const Expr& e) {
    return e.op == ExprOp::load || e.op == ExprOp::cast || e.op == ExprOp::round_to;
  });
}

std::vector<std::string> fusion_names() {
  return {"attention", "conv_bn", "conv_bn_relu", "layer_norm", "rms_norm", "rope", "silu_mul", "softmax"};
}

}  // namespace npusim
