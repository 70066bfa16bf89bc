// Follows sums and products of indices and numbers.
#include "kernel/facts/affine.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace npusim {
namespace {

constexpr int64_t most = int64_t{1} << 40;  // forms beyond it are not followed

bool is_number(const IndexForm& f) {
  return std::all_of(f.coeffs.begin(), f.coeffs.end(), [](int64_t c) { return c == 0; });
}
bool small(const IndexForm& f) {
  return std::abs(f.offset) < most &&
         std::all_of(f.coeffs.begin(), f.coeffs.end(), [](int64_t c) { return std::abs(c) < most; });
}

// `left` counts the operations that are still followed.
std::optional<IndexForm> follow(const Kernel& k, int32_t i, int& left) {
  if (--left < 0) return std::nullopt;
  const Expr& e = k.exprs[static_cast<size_t>(i)];
  IndexForm a{std::vector<int64_t>(k.space.size(), 0), 0};
  if (e.op == ExprOp::constant) {
    constexpr double whole = 1 << 24;
    const bool real = e.type >= Scalar::f32;
    if (real && (std::floor(e.number) != e.number || std::abs(e.number) > whole)) return std::nullopt;
    a.offset = real ? static_cast<int64_t>(e.number) : e.integer;
    return a.offset > -most && a.offset < most ? std::optional(a) : std::nullopt;
  }
  if (e.op == ExprOp::index) return a.coeffs[static_cast<size_t>(e.integer)] = 1, a;
  if (e.op == ExprOp::cast && e.type >= Scalar::f32 && k.exprs[static_cast<size_t>(e.in[0])].type == Scalar::i64)
    return follow(k, e.in[0], left);
  if (e.type == Scalar::boolean || (e.op != ExprOp::add && e.op != ExprOp::sub && e.op != ExprOp::mul))
    return std::nullopt;
  auto x = follow(k, e.in[0], left);
  auto y = x ? follow(k, e.in[1], left) : std::nullopt;
  if (!x || !y) return std::nullopt;
  if (e.op == ExprOp::mul && !is_number(*y)) std::swap(x, y);
  if (e.op == ExprOp::mul && (!is_number(*y) || std::abs(y->offset) > (1 << 20))) return std::nullopt;
  const auto combine = [&](int64_t p, int64_t q) {
    return e.op == ExprOp::mul ? p * y->offset : e.op == ExprOp::add ? p + q : p - q;
  };
  for (size_t d = 0; d < a.coeffs.size(); ++d) a.coeffs[d] = combine(x->coeffs[d], y->coeffs[d]);
  a.offset = combine(x->offset, y->offset);
  return small(a) ? std::optional(a) : std::nullopt;
}

}  // namespace

std::optional<IndexForm> affine_of(const Kernel& kernel, int32_t expr) {
  int left = 1024;
  return follow(kernel, expr, left);
}

}  // namespace npusim
