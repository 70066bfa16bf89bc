// Evaluates small nodes whose operands are constants; larger ones become recipes and run once at load.
#include <algorithm>

#include "passes/pass.h"
#include "passes/retype.h"

namespace npusim {
namespace {

constexpr int64_t largest_folded = 16384;  // elements: the reference evaluates one at a time

}  // namespace

void fold_constants(Graph& graph, PassContext& context) {
  std::vector<bool> dead(graph.nodes.size(), false);
  // A result that choose_dtype will widen must not be rounded here: it is left to a recipe, which computes it wide.
  std::set<DType> widened;
  if (context.dtype == DType::f32 && !context.strict) widened = own_halves(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op || node.in_place || !node.op->record.lower) continue;
    bool constant = true;
    std::vector<TensorView> views(node.inputs.size());
    std::vector<const TensorView*> inputs(node.inputs.size(), nullptr);
    for (size_t i = 0; i < node.inputs.size() && constant; ++i) {
      if (node.inputs[i] < 0) continue;
      const Value& v = value_of(graph, node.inputs[i]);
      constant = v.source == ValueSource::constant && element_count(v.type.shape) <= largest_folded;
      if (!constant) break;
      views[i] = view_of(*v.data);
      inputs[i] = &views[i];
    }
    for (ValueId v : node.outputs) {
      const TensorType& type = value_of(graph, v).type;
      constant = constant && element_count(type.shape) <= largest_folded && !widened.contains(type.dtype);
    }
    if (!constant) continue;
    std::vector<HostTensor> results = evaluate_call(call_of(graph, node), inputs, true);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Value& v = value_of(graph, node.outputs[i]);
      v.source = ValueSource::constant;
      v.producer = -1;
      v.data = std::make_shared<const HostTensor>(std::move(results[i]));
    }
    graph.nodes[n].outputs.clear();
    dead[n] = true;
  }
  compact(graph, dead, true);
}

}  // namespace npusim
