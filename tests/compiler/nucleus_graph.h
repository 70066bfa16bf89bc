// Kernels that find a nucleus, and one that says which tokens are of it.
#pragma once
#include "compiler/nucleus.h"

namespace npusim {

// A graph of logits, a temperature and top_p that gives 1 for each token of the nucleus.
inline Graph nucleus_graph(int64_t vocabulary, int64_t parts, DType dtype) {
  Graph graph;
  const auto given = [&](const char* name, TensorType type) {
    const ValueId id = add_value(graph, name, std::move(type));
    value_of(graph, id).source = ValueSource::input;
    graph.inputs.push_back(id);
    return id;
  };
  const ValueId logits = given("logits", {dtype, {1, 1, vocabulary}}),
                temperature = given("temperature", {DType::f32, {1}}), top_p = given("top_p", {DType::f32, {1}});
  const std::optional<Nucleus> nucleus = find_nucleus(graph, logits, temperature, top_p, parts);
  if (!nucleus) return graph;
  const TensorType taken{DType::i64, {vocabulary}};
  KernelBuilder k({parts, vocabulary / parts});
  const Affine place = k.dim(0) * (vocabulary / parts) + k.dim(1);
  const Coord at[] = {place};
  Node node;
  node.name = "taken";
  node.inputs = {nucleus->keys, nucleus->thresholds, nucleus->top_p};
  std::vector<int> args;
  for (const ValueId id : node.inputs) args.push_back(k.input(value_of(graph, id).type));
  k.store(k.output(taken), at, k.cast(contains(k, args[0], args[1], args[2], place), Scalar::i64));
  node.kernel = std::make_shared<const Kernel>(k.finish("taken"));
  node.outputs = {add_value(graph, "taken", taken)};
  graph.outputs.push_back({"taken", node.outputs[0], taken.shape});
  add_node(graph, std::move(node));
  return graph;
}

}  // namespace npusim
