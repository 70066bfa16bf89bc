// Recognising epilogues: the chain of values every path from the leaf passes, activations known by what they compute.
#include "backends/cpu/contraction_postops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernel/evaluate.h"

namespace npusim::cpu {
namespace {

// The leaf, and after it each value through which alone later ones depend on the leaf (immediate dominators).
std::vector<int32_t> chain_to(const Kernel& k, int32_t expr) {
  const auto count = static_cast<size_t>(expr) + 1;
  std::vector<int32_t> dominator(count, -1), level(count, -1);  // level -1: independent of the leaf
  for (size_t i = 0; i < count; ++i) {
    const Expr& e = k.exprs[i];
    if (e.op == ExprOp::contraction) level[i] = 0;
    for (int n = 0; n < expr_arity(e.op); ++n) {
      int32_t other = e.in[static_cast<size_t>(n)];
      if (level[static_cast<size_t>(other)] < 0) continue;
      int32_t& mine = dominator[i];
      if (mine < 0) mine = other;
      while (mine != other) {
        int32_t& deeper = level[static_cast<size_t>(mine)] > level[static_cast<size_t>(other)] ? mine : other;
        deeper = dominator[static_cast<size_t>(deeper)];
      }
      level[i] = level[static_cast<size_t>(mine)] + 1;
    }
  }
  std::vector<int32_t> chain;
  if (level[static_cast<size_t>(expr)] < 0) return chain;
  for (int32_t at = expr; at >= 0; at = dominator[static_cast<size_t>(at)]) chain.insert(chain.begin(), at);
  return chain;
}

const std::vector<float>& sample_points() {
  static const std::vector<float> points = [] {
    std::vector<float> xs{0};
    for (float x = 0.001f; x < 2e5f; x *= 1.3f) xs.push_back(x), xs.push_back(-x);
    for (float x = 0.0625f; x < 12; x += 0.125f) xs.push_back(x), xs.push_back(-x);
    return xs;
  }();
  return points;
}

// Expression `to` as a function of `from` alone at the sample points; empty when it depends on anything else.
std::vector<double> sampled(const Kernel& k, int32_t from, int32_t to) {
  const std::vector<float>& xs = sample_points();
  std::vector<double> ys(xs.size());
  Kernel f;
  f.space = {static_cast<int64_t>(xs.size())};
  f.args = {{DType::f32, f.space[0], false, -1}, {DType::f64, f.space[0], true, -1}};
  f.accesses = {{0, 0, {1}, {}, {}}};
  f.exprs.assign(k.exprs.begin(), k.exprs.begin() + to + 1);
  std::vector<bool> used(f.exprs.size(), false);
  used.back() = true;
  for (size_t i = f.exprs.size(); i-- > 0;) {
    Expr& e = f.exprs[i];
    if (static_cast<int32_t>(i) == from)
      e = {.op = ExprOp::load, .type = Scalar::f32};
    else if (!used[i])
      e = {.op = ExprOp::constant, .type = e.type};
    else if (e.op == ExprOp::load || e.op == ExprOp::index || e.op == ExprOp::contraction || e.op == ExprOp::round_to)
      return {};
    for (int n = 0; n < expr_arity(e.op); ++n) used[static_cast<size_t>(e.in[static_cast<size_t>(n)])] = true;
  }
  f.exprs.push_back({.op = ExprOp::cast, .type = Scalar::f64, .in = {to, -1, -1}});
  f.stores = {{{1, 0, {1}, {}, {}}, to + 1, false}};
  void* args[] = {const_cast<float*>(xs.data()), ys.data()};
  evaluate(f, args);
  return ys;
}

std::optional<PostOp> match_activation(const Kernel& k, int32_t from, int32_t to) {
  if (k.exprs[static_cast<size_t>(to)].type != Scalar::f32 || k.exprs[static_cast<size_t>(from)].type != Scalar::f32)
    return std::nullopt;
  const std::vector<double> ys = sampled(k, from, to);
  if (ys.empty()) return std::nullopt;
  const std::vector<float>& xs = sample_points();
  auto is = [&](const std::function<double(double)>& g) {
    for (size_t i = 0; i < xs.size(); ++i) {
      const double want = g(xs[i]);
      if (!(std::fabs(ys[i] - want) <= 1e-6 * (1 + std::fabs(want)))) return false;
    }
    return true;
  };
  auto value_at = [&](float x) { return ys[static_cast<size_t>(std::find(xs.begin(), xs.end(), x) - xs.begin())]; };
  const auto [least, most] = std::minmax_element(xs.begin(), xs.end());
  const double zero = ys[0], low = value_at(*least), high = value_at(*most), slope = (high - zero) / *most;
  const double floor = low == *least ? -std::numeric_limits<float>::max() : low;
  const double ceiling = high == *most ? std::numeric_limits<float>::max() : high;
  const double below = low / *least;
  auto op = [](Activation a, double alpha = 0, double beta = 0) {
    return PostOp{-1, a, static_cast<float>(alpha), static_cast<float>(beta)};
  };
  if (is([&](double x) { return slope * x + zero; })) return op(Activation::linear, slope, zero);
  if (is([&](double x) { return x > 0 ? x : below * x; })) return op(Activation::relu, below);
  if (floor <= ceiling && is([&](double x) { return std::clamp(x, floor, ceiling); }))
    return op(Activation::clip, floor, ceiling);
  if (is([](double x) { return 1 / (1 + std::exp(-x)); })) return op(Activation::logistic);
  if (is([](double x) { return std::tanh(x); })) return op(Activation::tanh);
  if (is([](double x) { return x / (1 + std::exp(-x)); })) return op(Activation::swish, 1);
  if (is([](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); })) return op(Activation::hardswish);
  if (is([](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); })) return op(Activation::gelu_erf);
  if (is([](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }))
    return op(Activation::gelu_tanh);
  return std::nullopt;
}

// `to` = `from` + a load.
std::optional<PostOp> match_add(const Kernel& k, int32_t from, int32_t to) {
  const Expr& e = k.exprs[static_cast<size_t>(to)];
  if (e.op != ExprOp::add || e.type != Scalar::f32 || (e.in[0] != from && e.in[1] != from)) return std::nullopt;
  const Expr& other = k.exprs[static_cast<size_t>(e.in[0] == from ? e.in[1] : e.in[0])];
  if (other.op != ExprOp::load || other.type != Scalar::f32) return std::nullopt;
  return PostOp{static_cast<int>(other.integer), Activation::relu, 0, 0};
}

}  // namespace

std::optional<std::vector<PostOp>> match_post_ops(const Kernel& kernel, int32_t expr) {
  const std::vector<int32_t> chain = chain_to(kernel, expr);
  if (chain.empty()) return std::nullopt;
  std::vector<PostOp> ops;
  for (size_t i = 0; i + 1 < chain.size();) {
    if (const auto add = match_add(kernel, chain[i], chain[i + 1])) {
      ops.push_back(*add);
      ++i;
      continue;
    }
    std::optional<PostOp> found;
    size_t end = chain.size();  // the longest stretch that is one known activation
    while (!found && --end > i) found = match_activation(kernel, chain[i], chain[end]);
    if (!found) return std::nullopt;
    ops.push_back(*found);
    i = end;
  }
  return ops;
}

}  // namespace npusim::cpu
