// Turns every ATen node into the kernels its record gives; copies that move nothing become other names of their source.
#include <numeric>

#include "base/error.h"
#include "kernel/builder.h"
#include "kernel/facts/memory.h"
#include "kernel/fuse/fuse.h"
#include "passes/pass.h"

namespace npusim {
namespace {

// A node is a few kernels; some are one or two for each step of a sequence, so that a short graph may come to a lot.
constexpr size_t kernels_of_node = 16, unrolled_kernels = 32768;

// A result without elements, for which no record has a kernel.
BoundKernel empty_result(ValueId value, const TensorType& type) {
  KernelBuilder k({0});
  const Scalar scalar = scalar_of(type.dtype);
  const Ex nothing = scalar >= Scalar::f32 ? k.number(0, scalar) : k.integer(0, scalar);
  k.store_flat(k.output(type), nothing);
  return {k.finish("empty"), {value}};
}

// A kernel that does work of `from`.
Node kernel_node(const Node& from, BoundKernel bound) {
  simplify(bound);
  Node node;
  node.name = from.name;
  node.origins = from.origins;
  for (size_t i = 0; i < bound.values.size(); ++i)
    (bound.kernel.args[i].written ? node.outputs : node.inputs).push_back(bound.values[i]);
  node.kernel = std::make_shared<const Kernel>(std::move(bound.kernel));
  return node;
}

}  // namespace

void lower(Graph& graph, PassContext& context) {
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  std::vector<ValueId> alias(graph.values.size());
  std::iota(alias.begin(), alias.end(), 0);
  std::vector<bool> computed(graph.values.size(), false);
  for (GraphOutput& output : graph.outputs) output.shape = value_of(graph, output.value).type.shape;
  const size_t most_kernels = unrolled_kernels + kernels_of_node * graph.nodes.size();
  for (Node& node : graph.nodes) {
    if (nodes.size() > most_kernels) {
      context.violations.push_back(
          {fmt::format("{} nodes", graph.nodes.size()), ErrorKind::unsupported,
           fmt::format("unrolled, those before {} come to {} kernels (at most {}, and {} for each node): take shorter "
                       "sequences or fewer layers at a time",
                       node.name, nodes.size(), unrolled_kernels, kernels_of_node)});
      return;
    }
    if (node.kernel) {
      BoundKernel bound{*node.kernel, {}};
      for (ValueId v : node.inputs) bound.values.push_back(alias[static_cast<size_t>(v)]);
      bound.values.insert(bound.values.end(), node.outputs.begin(), node.outputs.end());
      nodes.push_back(kernel_node(node, std::move(bound)));
      continue;
    }
    // The call sees its operands' own shapes; only the kernels' bindings follow aliases.
    const OpCall call = call_of(graph, node);
    Lowering lowering(call);
    try {
      if (!node.op->record.lower) fail(ErrorKind::unsupported, "no kernel for {}", node.op->name());
      node.op->record.lower(call, lowering);
      for (const Lowering::Call& step : lowering.calls)
        if (const std::string problem = uncountable(step.kernel); !problem.empty())
          fail(ErrorKind::unsupported, "{}", problem);
    } catch (const Error& error) {
      context.violations.push_back({fmt::format("{} ({})", node.name, node.op->name()), error.kind(), error.what()});
      continue;
    }
    std::vector<ValueId> operands = node.inputs;
    operands.insert(operands.end(), node.outputs.begin(), node.outputs.end());
    std::vector<Lowering::Call> calls = std::move(lowering.calls);
    for (TensorType& type : lowering.temporaries) {
      operands.push_back(add_value(graph, node.name + "_t", std::move(type)));
      alias.push_back(operands.back());
      computed.push_back(false);
    }
    for (Lowering::Call& step : calls) {
      BoundKernel bound{std::move(step.kernel), {}};
      for (int operand : step.operands)
        bound.values.push_back(alias[static_cast<size_t>(operands[static_cast<size_t>(operand)])]);
      // An identity copy of a whole value is that value.
      if (is_identity(bound.kernel)) {
        const Store& store = bound.kernel.stores[0];
        const Expr& load = bound.kernel.exprs[static_cast<size_t>(store.expr)];
        const int from = bound.kernel.accesses[static_cast<size_t>(load.integer)].arg;
        alias[static_cast<size_t>(bound.values[static_cast<size_t>(store.access.arg)])] =
            bound.values[static_cast<size_t>(from)];
        continue;
      }
      nodes.push_back(kernel_node(node, std::move(bound)));
      for (ValueId v : nodes.back().outputs) computed[static_cast<size_t>(v)] = true;
    }
    for (ValueId v : node.outputs) {
      const TensorType& type = value_of(graph, v).type;
      if (!computed[static_cast<size_t>(v)] && alias[static_cast<size_t>(v)] == v && element_count(type.shape) == 0)
        nodes.push_back(kernel_node(node, empty_result(v, type)));
    }
  }
  graph.nodes = std::move(nodes);
  if (!context.violations.empty()) return;  // the graph has holes: check_constraints ends the compilation
  replace_values(graph, alias);
  compact(graph, std::vector<bool>(graph.nodes.size(), false), true);
}

}  // namespace npusim
