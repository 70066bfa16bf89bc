// What is asked of the two, and the kernel that they become.
#include "backends/cuda/codegen/products/pair.h"

#include <algorithm>

#include "backends/cuda/codegen/text.h"
#include "kernel/fuse/substitute.h"
#include "print/print.h"

namespace npusim::cuda::codegen::products {
namespace {

bool same_elements(const Access& a, const Access& b) {
  return a.offset == b.offset && a.strides == b.strides && a.guards == b.guards && a.terms == b.terms;
}

bool is_simple(const Kernel& k) {
  const auto updates = [](const KernelArg& arg) { return arg.updates >= 0; };
  return k.contraction && k.contraction->kind == ContractionKind::matmul && !takes_trap(k) && k.row_dims == 0 &&
         k.stores.size() == 1 && !k.stores[0].accumulate && std::none_of(k.args.begin(), k.args.end(), updates);
}

int32_t value_of(const GroupStep& step, const Access& a) { return step.values[static_cast<size_t>(a.arg)]; }

// Whether `second` is a product beside whose own operands `first`'s result is read.
bool concerns(const GroupStep& first, const GroupStep& second) {
  const Kernel &f = *first.kernel, &s = *second.kernel;
  if (!f.contraction || !s.contraction || s.contraction->kind != ContractionKind::matmul || f.stores.empty())
    return false;
  const int32_t between = value_of(first, f.stores[0].access);
  return std::any_of(s.accesses.begin(), s.accesses.end(),
                     [&](const Access& a) { return value_of(second, a) == between; });
}

// Why `second` does not multiply as `first` does, and read its result where it has just been made, and nowhere else; ""
// if it does.
std::string pair_declines(const GroupStep& first, const GroupStep& second, const Features& features) {
  const Kernel &f = *first.kernel, &s = *second.kernel;
  if (!features.groups) return "this device has no warpgroups";
  if (!is_simple(f) || !is_simple(s)) return "more than a product that stores each result once";
  const Contraction &fc = *f.contraction, &sc = *s.contraction;
  if (f.space != s.space || fc.reduce != sc.reduce) return "products of different sizes";
  const Store& made = f.stores[0];
  const int32_t between = value_of(first, made.access), result = value_of(second, s.stores[0].access);
  if (value_of(second, sc.a) == between || value_of(second, sc.b) == between) return "the second multiplies the first";
  if (!same_elements(fc.a, sc.a) || value_of(first, fc.a) != value_of(second, sc.a)) return "other rows";
  const KernelArg &fb = f.args[static_cast<size_t>(fc.b.arg)], &sb = s.args[static_cast<size_t>(sc.b.arg)];
  if (!same_elements(fc.b, sc.b) || fb.dtype != sb.dtype || fb.elements != sb.elements)
    return "matrices of other forms";
  if (std::find(first.values.begin(), first.values.end(), result) != first.values.end())
    return "the second writes what the first reads";
  const auto elsewhere = [&](const Access& a) {
    return value_of(second, a) == between && !same_elements(a, made.access);
  };
  return std::any_of(s.accesses.begin(), s.accesses.end(), elsewhere) ? "the second reads other points of the first"
                                                                      : "";
}

}  // namespace

std::optional<Pair> find_pair(const GroupStep& first, const GroupStep& second, const Features& features, bool keep,
                              std::string& why) {
  if (!concerns(first, second)) return std::nullopt;
  why = pair_declines(first, second, features);
  if (!why.empty()) return std::nullopt;
  const Kernel &f = *first.kernel, &s = *second.kernel;
  const int32_t between = first.values[static_cast<size_t>(f.stores[0].access.arg)];
  Pair pair;
  Kernel& k = pair.kernel;
  k.name = f.name + "_" + s.name;
  k.space = s.space;
  std::vector<int> of_first(f.args.size(), -1), of_second(s.args.size(), -1);
  const auto take = [&](size_t step, const Kernel& from, std::vector<int>& to, const std::vector<int32_t>& values,
                        bool written) {
    for (size_t i = 0; i < from.args.size(); ++i) {
      if (from.args[i].written != written || (values[i] == between && !(written && keep))) continue;
      to[i] = static_cast<int>(k.args.size());
      k.args.push_back(from.args[i]);
      pair.given.emplace_back(step, i);
    }
  };
  take(0, f, of_first, first.values, false);
  take(1, s, of_second, second.values, false);
  take(1, s, of_second, second.values, true);
  take(0, f, of_first, first.values, true);
  std::vector<MappedIndex> same(k.space.size());
  for (size_t d = 0; d < same.size(); ++d) same[d].coeffs.assign(k.space.size(), 0), same[d].coeffs[d] = 1;
  Substitution gate(f, k, same, of_first), up(s, k, same, of_second);
  for (size_t i = 0; i < f.exprs.size(); ++i)
    if (f.exprs[i].op == ExprOp::contraction) {
      Expr other = f.exprs[i];
      other.integer = 1;
      k.exprs.push_back(other);
      gate.replace(static_cast<int32_t>(i), static_cast<int32_t>(k.exprs.size()) - 1);
    }
  const DType stored = f.args[static_cast<size_t>(f.stores[0].access.arg)].dtype;
  const int32_t made = through_dtype(k, gate.expression(f.stores[0].expr), stored, true);
  for (size_t i = 0; i < s.exprs.size(); ++i) {
    const Expr& e = s.exprs[i];
    if (e.op == ExprOp::load &&
        second.values[static_cast<size_t>(s.accesses[static_cast<size_t>(e.integer)].arg)] == between)
      up.replace(static_cast<int32_t>(i), made);
  }
  const int32_t result = up.expression(s.stores[0].expr);
  Contraction c = *s.contraction;
  c.a.arg = of_second[static_cast<size_t>(c.a.arg)], c.b.arg = of_second[static_cast<size_t>(c.b.arg)];
  k.contraction = std::make_shared<Contraction>(std::move(c));
  k.stores.push_back({up.access(s.stores[0].access), result, false});
  if (keep) k.stores.push_back({gate.access(f.stores[0].access), gate.expression(f.stores[0].expr), false});
  if (!gate.ok() || !up.ok()) {
    why = "their epilogues cannot be one";
    return std::nullopt;
  }
  auto product = plan::find_product(k, why);
  if (!product) return std::nullopt;
  product->second_b = of_first[static_cast<size_t>(f.contraction->b.arg)];
  if (rate_pair_tiles(*product, features).empty()) {
    why = "no tile fits their sizes";
    return std::nullopt;
  }
  pair.product = std::move(*product);
  return pair;
}

namespace {

Product product_of(const Pair& pair, const std::vector<bool>& ahead) {
  Product p = pair.product;
  p.a.ahead = ahead[static_cast<size_t>(p.a.arg)];
  p.b.ahead = ahead[static_cast<size_t>(p.b.arg)] && ahead[static_cast<size_t>(p.second_b)];
  return p;
}

}  // namespace

GeneratedKernel make_joined(const Pair& pair, const std::vector<bool>& ahead, const Features& features,
                            const TileShape& shape) {
  const Product p = product_of(pair, ahead);
  GeneratedKernel made = make_tiles(pair.kernel, p, shape, features);
  made.symbol = function_name(pair.kernel, p);
  return made;
}

std::vector<GeneratedKernel> make_joined(const Pair& pair, const std::vector<bool>& ahead, const Features& features,
                                         size_t most) {
  std::vector<GeneratedKernel> candidates;
  for (const TileShape& shape : likeliest(rate_pair_tiles(product_of(pair, ahead), features), most))
    candidates.push_back(make_joined(pair, ahead, features, shape));
  return candidates;
}

}  // namespace npusim::cuda::codegen::products
