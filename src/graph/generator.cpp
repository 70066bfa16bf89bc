// Random calls as functions of a state.
#include "graph/generator.h"

#include "kernel/builder.h"
#include "kernel/draw.h"

namespace npusim {

void add_generator(Graph& graph) {
  const TensorType type{DType::i64, {generator_size}};
  ValueId generator = no_value;
  int64_t calls = 0;
  for (Node& node : graph.nodes) {
    if (!node.op || !draws(call_of(graph, node))) continue;
    if (generator == no_value) {
      generator = add_value(graph, "generator", type);
      value_of(graph, generator).source = ValueSource::input;
      value_of(graph, generator).generator = true;
      graph.inputs.push_back(generator);
    }
    node.inputs.push_back(generator);
    node.attrs.emplace_back(calls++);
  }
  if (calls == 0) return;
  KernelBuilder k(type.shape);
  const int old = k.input(type);
  const Ex next = k.load_flat(old) + select(k.index(0) == 1, k.integer(calls), k.integer(0));
  k.store_flat(k.output(type, old), next);
  Node node;
  node.name = "count_draws";
  node.kernel = std::make_shared<const Kernel>(k.finish("count_draws"));
  node.inputs = {generator};
  node.outputs = {add_value(graph, "generator_next", type)};
  graph.outputs.push_back({value_of(graph, node.outputs[0]).name, node.outputs[0], type.shape});
  add_node(graph, std::move(node));
}

}  // namespace npusim
