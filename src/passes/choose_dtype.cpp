// The compute dtype: what contractions produce and what derives from it is stored in 16 bits; all arithmetic stays
// float32. Masks, positions, rotary angles, running sums, graph inputs and outputs keep their own dtypes.
#include <algorithm>
#include <set>

#include "kernel/facts/compact.h"
#include "kernel/facts/rename.h"
#include "passes/early_values.h"
#include "passes/pass.h"
#include "passes/retype.h"

namespace npusim {
namespace {

bool gathers_weight(const Graph& graph, const Node& node) {
  for (const Access& a : node.kernel->accesses) {
    if (a.terms.empty()) continue;
    const Value& v = value_of(graph, node.inputs[static_cast<size_t>(a.arg)]);
    if (v.source == ValueSource::weight && is_float(v.type.dtype)) return true;
  }
  return false;
}

// Activations: results of contractions and embeddings and all that is computed from them.
std::vector<bool> activations(const Graph& graph) {
  std::vector<bool> hot(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    const bool own = node.kernel->contraction || gathers_weight(graph, node);
    const bool any = own || std::any_of(node.inputs.begin(), node.inputs.end(),
                                        [&](ValueId v) { return hot[static_cast<size_t>(v)]; });
    for (ValueId v : node.outputs) hot[static_cast<size_t>(v)] = any;
  }
  return hot;
}

// Values that share a buffer through in-place updates keep one dtype: left alone.
std::vector<bool> updated_values(const Graph& graph) {
  std::vector<bool> fixed(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (size_t i = 0; i < node.kernel->args.size(); ++i)
      if (const int source = node.kernel->args[i].updates; source >= 0) {
        fixed[static_cast<size_t>(node.inputs[static_cast<size_t>(source)])] = true;
        fixed[static_cast<size_t>(node.outputs[i - node.inputs.size()])] = true;
      }
  return fixed;
}

// By value: running sums and products, which grow with their length past what 16 bits hold.
std::vector<bool> running_values(const Graph& graph) {
  std::vector<bool> running(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (const Store& store : node.kernel->stores)
      if (const Expr& e = node.kernel->exprs[static_cast<size_t>(store.expr)];
          e.op == ExprOp::scan && e.reduction <= Reduction::product && !e.integer)
        running[static_cast<size_t>(node.outputs[static_cast<size_t>(store.access.arg) - node.inputs.size()])] = true;
  return running;
}

// By value: whether a kernel computes it; a copy does not.
std::vector<bool> computed_values(const Graph& graph) {
  std::vector<bool> computed(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (ValueId v : node.outputs) computed[static_cast<size_t>(v)] = node.kernel->exprs.size() > 1;
  return computed;
}

// Kernels that convert the float32 operands of products and convolutions: a weight once, at load; of what comes from
// outside only the images of convolutions, since positions and features may need more digits. Float16 cannot hold every
// float32: images and computed weights, such as those scaled by a batch norm, stay float32 there, but for a target with
// equal operands those that are looked at once they are computed.
void narrow_operands(Graph& graph, DType dtype, bool equal_operands) {
  const std::vector<bool> early = early_values(graph), computed = computed_values(graph);
  const auto comes_narrow = [&](const Contraction& c, const Access* operand, ValueId v) {
    if (static_cast<size_t>(v) >= early.size() || value_of(graph, v).type.dtype != DType::f32) return false;
    const bool image = dtype == DType::bf16 && c.kind == ContractionKind::conv && operand == &c.a;
    const bool seen = equal_operands && !value_of(graph, v).finite_for.empty();
    if (dtype == DType::f16 && computed[static_cast<size_t>(v)] && !seen) return false;
    return early[static_cast<size_t>(v)] || (image && value_of(graph, v).source == ValueSource::input);
  };
  std::map<ValueId, ValueId> narrowed;
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (node.kernel->contraction && node.kernel->contraction->kind != ContractionKind::attention) {
      std::shared_ptr<Kernel> edited;
      for (const Access* operand : {&node.kernel->contraction->a, &node.kernel->contraction->b}) {
        const auto slot = static_cast<size_t>(operand->arg);
        const ValueId v = node.inputs[slot];
        if (!comes_narrow(*node.kernel->contraction, operand, v)) continue;
        // Only if the operand is all it is used for here: an epilogue that reads it too keeps the wide one.
        const auto& accesses = node.kernel->accesses;
        if (std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.arg == operand->arg; }))
          continue;
        auto [known, fresh] = narrowed.try_emplace(v, no_value);
        if (fresh) {
          const TensorType wide = value_of(graph, v).type;
          known->second =
              add_value(graph, value_of(graph, v).name + "_" + std::string(dtype_name(dtype)), {dtype, wide.shape});
          value_of(graph, known->second).finite_for = std::string(value_of(graph, v).finite_for);
          nodes.push_back(copy_node(graph, v, known->second, "cast", &node));
        }
        if (!edited) edited = std::make_shared<Kernel>(*node.kernel);
        edited->args[slot].dtype = dtype;
        node.inputs[slot] = known->second;
      }
      if (edited) node.kernel = edited;
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), true);
}

void narrow(Graph& graph, DType dtype, bool equal_operands) {
  const std::vector<bool> hot = activations(graph), early = early_values(graph), updated = updated_values(graph);
  const std::vector<bool> running = running_values(graph);
  std::vector<bool> output(graph.values.size(), false);
  for (const GraphOutput& o : graph.outputs) output[static_cast<size_t>(o.value)] = true;
  std::vector<DType> wanted(graph.values.size());
  for (size_t v = 0; v < wanted.size(); ++v) {
    const Value& value = graph.values[v];
    wanted[v] = value.type.dtype;
    if (value.source == ValueSource::node && value.type.dtype == DType::f32 && hot[v] && !early[v] && !updated[v] &&
        !running[v] && !output[v])
      wanted[v] = dtype;
  }
  retype_values(graph, wanted);
  narrow_operands(graph, dtype, equal_operands);
}

// A weight or constant that is updated is copied first: only the copy can be stored otherwise.
void copy_updated(Graph& graph, const std::set<DType>& own) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    for (const KernelArg& arg : node.kernel->args) {
      if (arg.updates < 0) continue;
      ValueId& old = node.inputs[static_cast<size_t>(arg.updates)];
      const ValueSource source = value_of(graph, old).source;
      if (!own.contains(arg.dtype) || (source != ValueSource::weight && source != ValueSource::constant)) continue;
      const ValueId copy = add_value(graph, value_of(graph, old).name + "_copy", value_of(graph, old).type);
      nodes.push_back(copy_node(graph, old, copy, "copy", &node));
      old = copy;
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  set_producers(graph);
}

// What stands for each expression where roundings to these dtypes are left out.
std::vector<int32_t> without_roundings(std::vector<Expr>& exprs, const std::set<DType>& dtypes) {
  std::vector<int32_t> to(exprs.size());
  for (size_t i = 0; i < exprs.size(); ++i) {
    rename_operands(exprs[i], to);
    const bool rounds = exprs[i].op == ExprOp::round_to && dtypes.contains(exprs[i].dtype);
    to[i] = rounds ? exprs[i].in[0] : static_cast<int32_t>(i);
  }
  return to;
}

void drop_roundings(Kernel& kernel, const std::set<DType>& dtypes) {
  const std::vector<int32_t> to = without_roundings(kernel.exprs, dtypes);
  for (Access& a : kernel.accesses) rename_terms(a, to);
  rename_stores(kernel, to);
  if (kernel.contraction && kernel.contraction->score) {
    auto contraction = std::make_shared<Contraction>(*kernel.contraction);
    auto score = std::make_shared<Score>(*contraction->score);
    const std::vector<int32_t> of_score = without_roundings(score->exprs, dtypes);
    for (Access& a : score->accesses) rename_terms(a, of_score);
    score->result = of_score[static_cast<size_t>(score->result)];
    if (score->keys >= 0) score->keys = of_score[static_cast<size_t>(score->keys)];
    contraction->score = std::move(score);
    kernel.contraction = std::move(contraction);
  }
  drop_dead(kernel);
}

// --dtype float32 of a 16-bit model: everything but its weights and constants is stored wide, inputs and outputs too,
// and casts to the model's own dtype with them. What has another 16-bit dtype has it because the model asks for it.
void widen(Graph& graph) {
  const std::set<DType> own = own_halves(graph);
  if (own.empty()) return;
  for (Node& node : graph.nodes) {
    auto edited = std::make_shared<Kernel>(*node.kernel);
    drop_roundings(*edited, own);
    node.kernel = std::move(edited);
  }
  copy_updated(graph, own);
  std::vector<DType> wanted(graph.values.size());
  for (size_t v = 0; v < wanted.size(); ++v) {
    const Value& value = graph.values[v];
    wanted[v] = value.type.dtype;
    if (own.contains(value.type.dtype) && value.source != ValueSource::weight && value.source != ValueSource::constant)
      wanted[v] = DType::f32;
  }
  retype_values(graph, wanted);
  for (GraphOutput& output : graph.outputs) {
    const Value value = value_of(graph, output.value);  // a copy: values grow
    if (!own.contains(value.type.dtype)) continue;      // else a weight or constant
    const ValueId wide = add_value(graph, value.name + "_float32", {DType::f32, value.type.shape});
    const int32_t producer = value.producer;
    const Node* node = producer < 0 ? nullptr : &graph.nodes[static_cast<size_t>(producer)];
    add_node(graph, copy_node(graph, output.value, wide, "cast", node));
    output.value = wide;
  }
}

// A rounding to the dtype that a value is stored in is the store's.
void leave_rounding_to_stores(Graph& graph) {
  for (Node& node : graph.nodes) {
    const auto rounds = [&](const Kernel& k, const Store& s) {
      const Expr& e = k.exprs[static_cast<size_t>(s.expr)];
      return e.op == ExprOp::round_to && e.dtype == k.args[static_cast<size_t>(s.access.arg)].dtype && !s.accumulate;
    };
    const Kernel& kernel = *node.kernel;
    if (std::none_of(kernel.stores.begin(), kernel.stores.end(), [&](const Store& s) { return rounds(kernel, s); }))
      continue;
    auto edited = std::make_shared<Kernel>(kernel);
    for (Store& s : edited->stores)
      while (rounds(*edited, s)) s.expr = edited->exprs[static_cast<size_t>(s.expr)].in[0];
    drop_dead(*edited);
    node.kernel = std::move(edited);
  }
}

void choose_stored(Graph& graph, PassContext& context) {
  // Rotary frequencies stay float32 whatever the file says: an angle's error grows with the position.
  std::vector<DType> wanted(graph.values.size());
  for (size_t v = 0; v < wanted.size(); ++v) {
    const Value& value = graph.values[v];
    const bool frequencies =
        value.source == ValueSource::weight && value.fqn.ends_with("inv_freq") && is_float(value.type.dtype);
    wanted[v] = frequencies && value.type.dtype != DType::f64 ? DType::f32 : value.type.dtype;
  }
  retype_values(graph, wanted);
  if (!context.dtype || context.strict) return;
  // A model that has 16-bit tensors of its own has chosen where it wants float32: only float32 models are narrowed.
  const bool mixed =
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value& v) { return is_half(v.type.dtype); });
  if (*context.dtype == DType::f32)
    widen(graph);
  else if (!mixed)
    narrow(graph, *context.dtype, context.target.equal_operands);
}

}  // namespace

void choose_dtype(Graph& graph, PassContext& context) {
  choose_stored(graph, context);
  leave_rounding_to_stores(graph);
}

}  // namespace npusim
