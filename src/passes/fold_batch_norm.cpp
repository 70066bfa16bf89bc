// BatchNorm behind a contraction is folded into its weights by data flow: an epilogue scale·x + shift whose scale is
// known at load and depends on output channels only becomes a recipe for scaled weights; the shift is its bias.
#include <algorithm>
#include <map>

#include "kernel/fuse.h"
#include "kernel/simplify.h"
#include "passes/early_values.h"
#include "passes/pass.h"

namespace npusim {
namespace {

// One expression as scale·leaf + shift, both expressions of the kernel that do not depend on the leaf (-1: 1 or 0).
struct Linear {
  bool depends = false;
  bool linear = true;
  int32_t scale = -1, shift = -1;
};

class Folder {
 public:
  Folder(Kernel& kernel, std::vector<bool> early_args) : k_(kernel), early_(std::move(early_args)) {}

  // The highest expression that is linear in the leaf and through which alone the leaf is used; -1 if scaling is
  // not worth a recipe.
  int32_t top(Linear& found) {
    const size_t count = k_.exprs.size();
    std::vector<Linear> forms(count);
    std::vector<bool> early(count, true);
    for (size_t i = 0; i < count; ++i) {
      const Expr e = k_.exprs[i];
      if (e.op == ExprOp::contraction) {
        forms[i].depends = true;
        early[i] = false;
        continue;
      }
      if (e.op == ExprOp::index) early[i] = false;
      if (e.op == ExprOp::load)
        early[i] = early_[static_cast<size_t>(k_.accesses[static_cast<size_t>(e.integer)].arg)] &&
                   k_.accesses[static_cast<size_t>(e.integer)].terms.empty() &&
                   k_.accesses[static_cast<size_t>(e.integer)].guards.empty();
      for (int n = 0; n < expr_arity(e.op); ++n)
        early[i] = early[i] && early[static_cast<size_t>(e.in[static_cast<size_t>(n)])];
    }
    int32_t best = -1;
    for (size_t i = 0; i < count; ++i) {
      const Expr e = k_.exprs[i];
      if (e.op == ExprOp::contraction || expr_arity(e.op) == 0) continue;
      combine(i, e, forms, early);
      if (forms[i].depends && forms[i].linear && forms[i].scale >= 0 && dominates(static_cast<int32_t>(i))) {
        best = static_cast<int32_t>(i);
        found = forms[i];
      }
    }
    return best;
  }

 private:
  void combine(size_t i, const Expr& e, std::vector<Linear>& forms, const std::vector<bool>& early) {
    Linear out;
    for (int n = 0; n < expr_arity(e.op); ++n)
      out.depends = out.depends || forms[static_cast<size_t>(e.in[static_cast<size_t>(n)])].depends;
    if (!out.depends) return;
    out.linear = false;
    if (e.type == Scalar::f32 && expr_arity(e.op) == 2) {
      const Linear& a = forms[static_cast<size_t>(e.in[0])];
      const Linear& b = forms[static_cast<size_t>(e.in[1])];
      if (a.depends && a.linear && !b.depends && early[static_cast<size_t>(e.in[1])])
        out = apply(e.op, a, e.in[1], false);
      else if (b.depends && b.linear && !a.depends && early[static_cast<size_t>(e.in[0])])
        out = apply(e.op, b, e.in[0], true);
    }
    forms[i] = out;
  }

  Linear apply(ExprOp op, Linear x, int32_t w, bool w_first) {
    x.depends = true;
    switch (op) {
      case ExprOp::add:
        x.shift = x.shift < 0 ? w : binary(ExprOp::add, x.shift, w);
        break;
      case ExprOp::sub:
        if (w_first)
          x.linear = false;
        else
          x.shift = x.shift < 0 ? unary(ExprOp::neg, w) : binary(ExprOp::sub, x.shift, w);
        break;
      case ExprOp::mul:
        x.scale = x.scale < 0 ? w : binary(ExprOp::mul, x.scale, w);
        if (x.shift >= 0) x.shift = binary(ExprOp::mul, x.shift, w);
        break;
      case ExprOp::div:
        if (w_first) {
          x.linear = false;
          break;
        }
        x.scale = x.scale < 0 ? binary(ExprOp::div, constant(1), w) : binary(ExprOp::div, x.scale, w);
        if (x.shift >= 0) x.shift = binary(ExprOp::div, x.shift, w);
        break;
      default:
        x.linear = false;
    }
    return x;
  }

  // Whether every use of the leaf goes through `top`.
  bool dominates(int32_t top) const {
    std::vector<bool> reaches(k_.exprs.size(), false);
    for (size_t i = 0; i < k_.exprs.size(); ++i) {
      if (static_cast<int32_t>(i) == top) continue;
      if (k_.exprs[i].op == ExprOp::contraction) reaches[i] = true;
      for (int n = 0; n < expr_arity(k_.exprs[i].op); ++n)
        reaches[i] = reaches[i] || reaches[static_cast<size_t>(k_.exprs[i].in[static_cast<size_t>(n)])];
    }
    return std::none_of(k_.stores.begin(), k_.stores.end(),
                        [&](const Store& s) { return reaches[static_cast<size_t>(s.expr)]; });
  }

  int32_t unary(ExprOp op, int32_t a) {
    Expr e{.op = op, .type = Scalar::f32};
    e.in[0] = a;
    return add_expr(k_, e);
  }
  int32_t binary(ExprOp op, int32_t a, int32_t b) {
    Expr e{.op = op, .type = Scalar::f32};
    e.in = {a, b, -1};
    return add_expr(k_, e);
  }
  int32_t constant(double value) {
    Expr e{.op = ExprOp::constant, .type = Scalar::f32};
    e.number = value;
    return add_expr(k_, e);
  }

  Kernel& k_;
  std::vector<bool> early_;
};

// Dimensions an expression's loads run along.
std::vector<bool> dims_of(const Kernel& k, int32_t expr) {
  std::vector<bool> dims(k.space.size(), false), seen(k.exprs.size(), false);
  std::vector<int32_t> stack{expr};
  while (!stack.empty()) {
    const int32_t id = stack.back();
    stack.pop_back();
    if (seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    const Expr& e = k.exprs[static_cast<size_t>(id)];
    if (e.op == ExprOp::load) {
      const Access& a = k.accesses[static_cast<size_t>(e.integer)];
      for (size_t d = 0; d < dims.size(); ++d) dims[d] = dims[d] || (a.strides[d] != 0 && k.space[d] > 1);
    }
    for (int n = 0; n < expr_arity(e.op); ++n) stack.push_back(e.in[static_cast<size_t>(n)]);
  }
  return dims;
}

// A kernel over `dims` of `from` that stores `expr` (times the operand b's element when `weight` is set) densely.
BoundKernel recipe(const BoundKernel& from, int32_t expr, const std::vector<size_t>& dims, bool weight, int value,
                   int64_t& elements) {
  BoundKernel out;
  Kernel& k = out.kernel;
  const size_t rank = from.kernel.space.size();
  const Contraction& c = *from.kernel.contraction;
  for (size_t d : dims) k.space.push_back(d < rank ? from.kernel.space[d] : c.reduce[d - rank]);
  out.kernel.args = from.kernel.args;
  out.values = from.values;
  std::erase_if(k.args, [](const KernelArg& a) { return a.written; });
  out.values.resize(k.args.size());
  auto pick = [&](const Access& a) {
    Access picked{a.arg, a.offset, {}, {}, {}};
    for (size_t d : dims) picked.strides.push_back(d < a.strides.size() ? a.strides[d] : 0);
    return picked;
  };
  std::vector<int32_t> to(from.kernel.exprs.size(), -1);
  std::vector<bool> need(from.kernel.exprs.size(), false);
  need[static_cast<size_t>(expr)] = true;
  for (size_t i = from.kernel.exprs.size(); i-- > 0;)
    if (need[i])
      for (int n = 0; n < expr_arity(from.kernel.exprs[i].op); ++n)
        need[static_cast<size_t>(from.kernel.exprs[i].in[static_cast<size_t>(n)])] = true;
  for (size_t i = 0; i < from.kernel.exprs.size(); ++i) {
    if (!need[i]) continue;
    Expr e = from.kernel.exprs[i];
    for (int n = 0; n < expr_arity(e.op); ++n)
      e.in[static_cast<size_t>(n)] = to[static_cast<size_t>(e.in[static_cast<size_t>(n)])];
    if (e.op == ExprOp::load) {
      k.accesses.push_back(pick(from.kernel.accesses[static_cast<size_t>(e.integer)]));
      e.integer = static_cast<int64_t>(k.accesses.size()) - 1;
    }
    to[i] = static_cast<int32_t>(k.exprs.size());
    k.exprs.push_back(e);
  }
  int32_t result = to[static_cast<size_t>(expr)];
  if (weight) {
    k.accesses.push_back(pick(c.b));
    Expr load{.op = ExprOp::load, .type = Scalar::f32};
    load.integer = static_cast<int64_t>(k.accesses.size()) - 1;
    k.exprs.push_back(load);
    Expr product{.op = ExprOp::mul, .type = Scalar::f32};
    product.in = {static_cast<int32_t>(k.exprs.size()) - 1, result, -1};
    k.exprs.push_back(product);
    result = static_cast<int32_t>(k.exprs.size()) - 1;
  }
  elements = 1;
  for (int64_t n : k.space) elements *= n;
  Access store;
  store.arg = static_cast<int>(k.args.size());
  store.strides = row_major_strides(k.space);
  k.args.push_back({DType::f32, elements, true, -1});
  out.values.push_back(value);
  k.stores.push_back({store, result, false});
  k.name = weight ? "scale_weights" : "shift";
  simplify(out);
  return out;
}

Node node_of(BoundKernel bound, const std::string& name) {
  Node node;
  node.name = name;
  for (size_t i = 0; i < bound.values.size(); ++i)
    (bound.kernel.args[i].written ? node.outputs : node.inputs).push_back(bound.values[i]);
  node.kernel = std::make_shared<const Kernel>(std::move(bound.kernel));
  return node;
}

bool is_relu_of(const Kernel& k, int32_t x) {
  return std::any_of(k.exprs.begin(), k.exprs.end(),
                     [&](const Expr& e) { return e.op == ExprOp::max && (e.in[0] == x || e.in[1] == x); });
}

}  // namespace

void fold_batch_norm(Graph& graph, PassContext& context) {
  if (!context.enabled("conv_bn")) return;
  const std::vector<bool> early = early_values(graph);
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const auto& c = node.kernel->contraction;
    const bool candidate = c && c->kind != ContractionKind::attention &&
                           early[static_cast<size_t>(node.inputs[static_cast<size_t>(c->b.arg)])] &&
                           c->b.guards.empty();
    if (!candidate) {
      nodes.push_back(std::move(node));
      continue;
    }
    BoundKernel bound{*node.kernel, {node.inputs.begin(), node.inputs.end()}};
    bound.values.insert(bound.values.end(), node.outputs.begin(), node.outputs.end());
    std::vector<bool> early_args;
    for (size_t i = 0; i < bound.values.size(); ++i)
      early_args.push_back(i < node.inputs.size() && early[static_cast<size_t>(bound.values[i])]);
    Kernel& k = bound.kernel;
    Linear linear;
    const int32_t top = Folder(k, early_args).top(linear);
    // The scale must run along dimensions of the weights only, and be more than a constant.
    bool fits = top >= 0;
    std::vector<size_t> weight_dims, shift_dims;
    if (fits) {
      const auto scale_dims = dims_of(k, linear.scale);
      bool varies = false;
      for (size_t d = 0; d < scale_dims.size(); ++d) {
        varies = varies || scale_dims[d];
        fits = fits && (!scale_dims[d] || k.contraction->b.strides[d] != 0);
      }
      fits = fits && varies;
      for (size_t d = 0; d < k.contraction->b.strides.size(); ++d) {
        const int64_t n = d < k.space.size() ? k.space[d] : k.contraction->reduce[d - k.space.size()];
        if (k.contraction->b.strides[d] != 0 && n > 1) weight_dims.push_back(d);
      }
    }
    if (!fits) {
      nodes.push_back(std::move(node));
      continue;
    }
    int64_t elements = 0;
    Shape shape;
    for (size_t d : weight_dims)
      shape.push_back(d < k.space.size() ? k.space[d] : k.contraction->reduce[d - k.space.size()]);
    const ValueId scaled = add_value(graph, node.name + "_scaled", {DType::f32, shape});
    nodes.push_back(node_of(recipe(bound, linear.scale, weight_dims, true, scaled, elements), node.name));
    auto contraction = std::make_shared<Contraction>(*k.contraction);
    const Shape dense = row_major_strides(shape);
    std::fill(contraction->b.strides.begin(), contraction->b.strides.end(), 0);
    for (size_t i = 0; i < weight_dims.size(); ++i) contraction->b.strides[weight_dims[i]] = dense[i];
    contraction->b.offset = 0;
    contraction->b.arg = static_cast<int>(k.args.size());
    k.args.push_back({DType::f32, elements, false, -1});
    bound.values.push_back(scaled);

    int32_t leaf = -1;
    for (size_t i = 0; i < k.exprs.size(); ++i)
      if (k.exprs[i].op == ExprOp::contraction) leaf = static_cast<int32_t>(i);
    Expr replacement;
    if (linear.shift >= 0) {
      const auto dims = dims_of(k, linear.shift);
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d]) shift_dims.push_back(d);
      Shape shift_shape;
      for (size_t d : shift_dims) shift_shape.push_back(k.space[d]);
      const ValueId shift = add_value(graph, node.name + "_shift", {DType::f32, shift_shape});
      BoundKernel source{*node.kernel, {node.inputs.begin(), node.inputs.end()}};
      source.values.insert(source.values.end(), node.outputs.begin(), node.outputs.end());
      Linear again;
      Folder(source.kernel, early_args).top(again);
      nodes.push_back(node_of(recipe(source, again.shift, shift_dims, false, shift, elements), node.name));
      Access load{static_cast<int>(k.args.size()), 0, std::vector<int64_t>(k.space.size(), 0), {}, {}};
      const Shape strides = row_major_strides(shift_shape);
      for (size_t i = 0; i < shift_dims.size(); ++i) load.strides[shift_dims[i]] = strides[i];
      k.args.push_back({DType::f32, elements, false, -1});
      bound.values.push_back(shift);
      k.accesses.push_back(load);
      Expr bias{.op = ExprOp::load, .type = Scalar::f32};
      bias.integer = static_cast<int64_t>(k.accesses.size()) - 1;
      replacement = Expr{.op = ExprOp::add, .type = Scalar::f32};
      replacement.in = {leaf, -1, -1};
      // Rebuild the expressions with the bias first, so that operands stay earlier than their users.
      std::vector<Expr> old = std::move(k.exprs);
      k.exprs.clear();
      k.exprs.push_back(bias);
      k.exprs.push_back({.op = ExprOp::contraction, .type = Scalar::f32});
      replacement.in = {1, 0, -1};
      k.exprs.push_back(replacement);
      std::vector<int32_t> to(old.size(), -1);
      for (size_t i = 0; i < old.size(); ++i) {
        if (static_cast<int32_t>(i) == top) {
          to[i] = 2;
          continue;
        }
        if (old[i].op == ExprOp::contraction) {
          to[i] = 1;
          continue;
        }
        Expr e = old[i];
        for (int n = 0; n < expr_arity(e.op); ++n)
          e.in[static_cast<size_t>(n)] = to[static_cast<size_t>(e.in[static_cast<size_t>(n)])];
        to[i] = static_cast<int32_t>(k.exprs.size());
        k.exprs.push_back(e);
      }
      for (Store& s : k.stores) s.expr = to[static_cast<size_t>(s.expr)];
      for (Access& a : k.accesses)
        for (IndexTerm& t : a.terms) t.expr = to[static_cast<size_t>(t.expr)];
      for (Store& s : k.stores)
        for (IndexTerm& t : s.access.terms) t.expr = to[static_cast<size_t>(t.expr)];
      replacement.integer = 2;
    } else {
      for (Expr& e : k.exprs)
        for (int32_t& in : e.in)
          if (in == top) in = leaf;
      for (Store& s : k.stores)
        if (s.expr == top) s.expr = leaf;
      replacement.integer = leaf;
    }
    k.contraction = contraction;
    const bool relu = is_relu_of(k, static_cast<int32_t>(replacement.integer));
    order_args(bound);
    simplify(bound);
    if (k.contraction->kind == ContractionKind::conv) ++context.fusions[relu ? "conv_bn_relu" : "conv_bn"];
    nodes.push_back(node_of(std::move(bound), node.name));
  }
  graph.nodes = std::move(nodes);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), true);
}

}  // namespace npusim
