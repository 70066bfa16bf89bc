// Random calls as functions of a state.
#include "graph/generator.h"

#include <algorithm>
#include <string>

#include "kernel/builder.h"
#include "kernel/draw.h"

namespace npusim {
namespace {

// A name that no input or output of the graph has: the model may have a "generator" of its own.
std::string free_name(const Graph& graph, const std::string& name) {
  const auto is_taken = [&](const std::string& found) {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                       [&](ValueId id) { return value_of(graph, id).name == found; }) ||
           std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const GraphOutput& o) { return o.name == found; });
  };
  std::string found = name;
  for (int n = 1; is_taken(found); ++n) found = name + "_" + std::to_string(n);
  return found;
}

}  // namespace

void add_generator(Graph& graph) {
  const TensorType type{DType::i64, {generator_size}};
  ValueId generator = no_value;
  int64_t calls = 0;
  for (Node& node : graph.nodes) {
    if (!node.op || !draws(call_of(graph, node))) continue;
    if (generator == no_value) {
      generator = add_value(graph, free_name(graph, "generator"), type);
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
  node.outputs = {add_value(graph, free_name(graph, "generator_next"), type)};
  graph.outputs.push_back({value_of(graph, node.outputs[0]).name, node.outputs[0], type.shape});
  add_node(graph, std::move(node));
}

}  // namespace npusim
