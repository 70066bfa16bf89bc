// BatchNorm behind a contraction is folded into its weights by data flow: an epilogue scale·x + shift whose scale is
// known at load and depends on output channels only becomes a recipe for scaled weights; the shift is its bias. Sums of
// scaled weights are scaled sums only where both recipes give finite numbers, which is known when they have run.
#include <algorithm>

#include "kernel/facts/rename.h"
#include "kernel/fuse/fuse.h"
#include "kernel/fuse/simplify.h"
#include "passes/early_values.h"
#include "passes/linear_epilogue.h"
#include "passes/pass.h"

namespace npusim {
namespace {

constexpr const char* fusion = "conv_bn";

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

// The expressions that `expr` needs, itself included.
std::vector<bool> needed_by(const Kernel& k, int32_t expr) {
  std::vector<bool> need(k.exprs.size(), false);
  need[static_cast<size_t>(expr)] = true;
  for (size_t i = k.exprs.size(); i-- > 0;)
    if (need[i])
      for (int n = 0; n < expr_arity(k.exprs[i].op); ++n)
        need[static_cast<size_t>(k.exprs[i].in[static_cast<size_t>(n)])] = true;
  return need;
}

Expr renamed(Expr e, const std::vector<int32_t>& to) {
  rename_operands(e, to);
  return e;
}

int32_t append_expr(Kernel& k, const Expr& e) {
  k.exprs.push_back(e);
  return static_cast<int32_t>(k.exprs.size()) - 1;
}

int32_t append_load(Kernel& k, Access access) {
  Expr load{.op = ExprOp::load, .type = scalar_of(k.args[static_cast<size_t>(access.arg)].dtype)};
  k.accesses.push_back(std::move(access));
  load.integer = static_cast<int64_t>(k.accesses.size()) - 1;
  return append_expr(k, load);
}

int32_t append_binary(Kernel& k, ExprOp op, int32_t a, int32_t b) {
  Expr e{.op = op, .type = Scalar::f32};
  e.in = {a, b, -1};
  return append_expr(k, e);
}

// Extents of some dimensions of space ++ reduce.
Shape extents_of(const Kernel& k, const std::vector<size_t>& dims) {
  Shape shape;
  for (size_t d : dims) shape.push_back(d < k.space.size() ? k.space[d] : k.contraction->reduce[d - k.space.size()]);
  return shape;
}

// A kernel over `dims` of `from` that stores `expr` (times the operand b's element when `weight` is set) densely.
BoundKernel recipe(const BoundKernel& from, int32_t expr, const std::vector<size_t>& dims, bool weight, int value,
                   DType dtype) {
  BoundKernel out;
  Kernel& k = out.kernel;
  k.space = extents_of(from.kernel, dims);
  k.args = from.kernel.args;
  out.values = from.values;
  std::erase_if(k.args, [](const KernelArg& a) { return a.written; });
  out.values.resize(k.args.size());
  auto pick = [&](const Access& a) {
    Access picked{a.arg, a.offset, {}, {}, {}};
    for (size_t d : dims) picked.strides.push_back(d < a.strides.size() ? a.strides[d] : 0);
    return picked;
  };
  const std::vector<bool> need = needed_by(from.kernel, expr);
  std::vector<int32_t> to(from.kernel.exprs.size(), -1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (!need[i]) continue;
    const Expr& e = from.kernel.exprs[i];
    to[i] = e.op == ExprOp::load ? append_load(k, pick(from.kernel.accesses[static_cast<size_t>(e.integer)]))
                                 : append_expr(k, renamed(e, to));
  }
  int32_t result = to[static_cast<size_t>(expr)];
  if (weight) result = append_binary(k, ExprOp::mul, append_load(k, pick(from.kernel.contraction->b)), result);
  Access store;
  store.arg = static_cast<int>(k.args.size());
  store.strides = row_major_strides(k.space);
  k.args.push_back({dtype, element_count(k.space), true, -1});
  out.values.push_back(value);
  k.stores.push_back({store, result, false});
  k.name = weight ? "scale_weights" : "shift";
  simplify(out);
  return out;
}

// A kernel that does work of `from`.
Node node_of(BoundKernel bound, const Node& from) {
  Node node;
  node.name = from.name;
  node.origins = from.origins;
  node.device = from.device;
  for (size_t i = 0; i < bound.values.size(); ++i)
    (bound.kernel.args[i].written ? node.outputs : node.inputs).push_back(bound.values[i]);
  node.kernel = std::make_shared<const Kernel>(std::move(bound.kernel));
  return node;
}

bool is_relu_of(const Kernel& k, int32_t x) {
  return std::any_of(k.exprs.begin(), k.exprs.end(),
                     [&](const Expr& e) { return e.op == ExprOp::max && (e.in[0] == x || e.in[1] == x); });
}

// One contraction whose epilogue is to be folded.
struct Fold {
  const Node* node = nullptr;
  BoundKernel bound;
  int32_t top = -1;  // the expression that is scale·leaf + shift
  Linear linear;
  std::vector<size_t> weight_dims;  // of space ++ reduce, along which the weights run
};

// The scale must run along dimensions of the weights only, and be more than a constant.
std::optional<Fold> find_fold(const Node& node, const std::vector<bool>& early) {
  const auto& c = node.kernel->contraction;
  if (!c || c->kind == ContractionKind::attention || !c->b.guards.empty() ||
      !early[static_cast<size_t>(node.inputs[static_cast<size_t>(c->b.arg)])])
    return std::nullopt;
  Fold fold{&node, {*node.kernel, {node.inputs.begin(), node.inputs.end()}}, -1, {}, {}};
  fold.bound.values.insert(fold.bound.values.end(), node.outputs.begin(), node.outputs.end());
  std::vector<bool> early_args;
  for (size_t i = 0; i < fold.bound.values.size(); ++i)
    early_args.push_back(i < node.inputs.size() && early[static_cast<size_t>(fold.bound.values[i])]);
  Kernel& k = fold.bound.kernel;
  fold.top = find_linear_epilogue(k, early_args, fold.linear);
  if (fold.top < 0) return std::nullopt;
  const std::vector<bool> scale_dims = dims_of(k, fold.linear.scale);
  bool varies = false;
  for (size_t d = 0; d < scale_dims.size(); ++d) {
    if (scale_dims[d] && c->b.strides[d] == 0) return std::nullopt;
    varies = varies || scale_dims[d];
  }
  if (!varies) return std::nullopt;
  for (size_t d = 0; d < c->b.strides.size(); ++d)
    if (c->b.strides[d] != 0 && extents_of(k, {d})[0] > 1) fold.weight_dims.push_back(d);
  return fold;
}

// An argument for a value of the graph, in dense order of its shape.
int add_dense_arg(BoundKernel& bound, ValueId value, const TensorType& type) {
  bound.kernel.args.push_back({type.dtype, element_count(type.shape), false, -1});
  bound.values.push_back(value);
  return static_cast<int>(bound.values.size()) - 1;
}

// A value that a recipe of the fold makes.
ValueId add_folded(Graph& graph, const std::string& name, const TensorType& type) {
  const ValueId id = add_value(graph, name, type);
  value_of(graph, id).finite_for = fusion;
  return id;
}

// What scaled weights are stored in. Those of bfloat16 stay so; float16 may not hold the product, which for a target
// with equal operands is refused at load.
DType scaled_dtype(const Kernel& k, const PassContext& context) {
  const DType stored = k.args[static_cast<size_t>(k.contraction->b.arg)].dtype;
  const bool keep = stored == DType::bf16 || (stored == DType::f16 && context.target.equal_operands);
  return keep && context.dtype != DType::f32 ? stored : DType::f32;
}

// The contraction reads weights that a recipe has scaled.
Node scale_weights(Graph& graph, Fold& fold, DType dtype) {
  Kernel& k = fold.bound.kernel;
  const TensorType type{dtype, extents_of(k, fold.weight_dims)};
  const ValueId scaled = add_folded(graph, fold.node->name + "_scaled", type);
  Node node = node_of(recipe(fold.bound, fold.linear.scale, fold.weight_dims, true, scaled, type.dtype), *fold.node);
  auto contraction = std::make_shared<Contraction>(*k.contraction);
  const Shape dense = row_major_strides(type.shape);
  std::fill(contraction->b.strides.begin(), contraction->b.strides.end(), 0);
  for (size_t i = 0; i < fold.weight_dims.size(); ++i) contraction->b.strides[fold.weight_dims[i]] = dense[i];
  contraction->b.offset = 0;
  contraction->b.arg = add_dense_arg(fold.bound, scaled, type);
  k.contraction = std::move(contraction);
  return node;
}

// Rebuilds the expressions with leaf + bias first, so that operands stay earlier than their users, in the place of
// `top`. Gives the sum.
int32_t put_bias(Kernel& k, Access bias, int32_t top) {
  const std::vector<Expr> old = std::move(k.exprs);
  k.exprs.clear();
  const int32_t load = append_load(k, std::move(bias));
  const int32_t leaf = append_expr(k, {.op = ExprOp::contraction, .type = Scalar::f32});
  const int32_t sum = append_binary(k, ExprOp::add, leaf, load);
  std::vector<int32_t> to(old.size(), -1);
  for (size_t i = 0; i < old.size(); ++i) {
    if (static_cast<int32_t>(i) == top)
      to[i] = sum;
    else
      to[i] = old[i].op == ExprOp::contraction ? leaf : append_expr(k, renamed(old[i], to));
  }
  for (Access& a : k.accesses) rename_terms(a, to);
  rename_stores(k, to);
  return sum;
}

// What is left of the epilogue: leaf + a bias that a recipe has made, or the leaf alone. `recipes` gets the recipe.
int32_t put_shift(Graph& graph, Fold& fold, const BoundKernel& source, std::vector<Node>& recipes) {
  Kernel& k = fold.bound.kernel;
  if (fold.linear.shift < 0) {
    const auto leaf =
        std::find_if(k.exprs.begin(), k.exprs.end(), [](const Expr& e) { return e.op == ExprOp::contraction; });
    const auto id = static_cast<int32_t>(leaf - k.exprs.begin());
    for (Expr& e : k.exprs) std::replace(e.in.begin(), e.in.end(), fold.top, id);
    for (Store& s : k.stores)
      if (s.expr == fold.top) s.expr = id;
    return id;
  }
  const std::vector<bool> varies = dims_of(k, fold.linear.shift);
  std::vector<size_t> dims;
  for (size_t d = 0; d < varies.size(); ++d)
    if (varies[d]) dims.push_back(d);
  const TensorType type{DType::f32, extents_of(k, dims)};
  const Shape strides = row_major_strides(type.shape);
  const ValueId shift = add_folded(graph, fold.node->name + "_shift", type);
  recipes.push_back(node_of(recipe(source, fold.linear.shift, dims, false, shift, type.dtype), *fold.node));
  Access bias;
  bias.strides.assign(k.space.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) bias.strides[dims[i]] = strides[i];
  bias.arg = add_dense_arg(fold.bound, shift, type);
  return put_bias(k, std::move(bias), fold.top);
}

}  // namespace

void fold_batch_norm(Graph& graph, PassContext& context) {
  // A folded weight rounds where the IR does not: not under strict numerics.
  if (!context.enabled(fusion) || context.strict) return;
  const std::vector<bool> early = early_values(graph);
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    std::optional<Fold> fold = find_fold(node, early);
    if (!fold) {
      nodes.push_back(std::move(node));
      continue;
    }
    const BoundKernel source = fold->bound;
    nodes.push_back(scale_weights(graph, *fold, scaled_dtype(fold->bound.kernel, context)));
    const int32_t result = put_shift(graph, *fold, source, nodes);
    Kernel& k = fold->bound.kernel;
    const bool relu = is_relu_of(k, result);
    order_args(fold->bound);
    simplify(fold->bound);
    if (k.contraction->kind == ContractionKind::conv) ++context.fusions[relu ? "conv_bn_relu" : fusion];
    nodes.push_back(node_of(std::move(fold->bound), node));
  }
  graph.nodes = std::move(nodes);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), true);
}

}  // namespace npusim
