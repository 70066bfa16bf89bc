// Evaluation of a graph of ATen calls, node by node.
#include "compiler/reference.h"

#include <fmt/format.h>

#include <set>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "compiler/share_states.h"
#include "graph/import.h"
#include "kernel/evaluate.h"
#include "npusim/compiler.h"
#include "passes/pass.h"
#include "runtime/weights.h"

namespace npusim {
namespace {

HostTensor reference_weight(const Value& value, const TensorSet* weights, std::vector<Problem>& problems) {
  Buffer buffer;
  buffer.type = value.type;
  buffer.fqn = value.fqn;
  buffer.tied = value.tied;
  LocatedWeight weight = locate_weight(weights, buffer, problems);
  return weight ? make_weight(std::move(weight), buffer) : HostTensor{};
}

// A kernel node, which a write through a view becomes: what it updates begins as a copy.
std::vector<HostTensor> evaluate_kernel(const Graph& graph, const Node& node,
                                        const std::vector<const TensorView*>& inputs) {
  std::vector<HostTensor> results;
  std::vector<void*> args;
  for (const TensorView* input : inputs) args.push_back(const_cast<std::byte*>(input->data));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const int source = node.kernel->args[inputs.size() + i].updates;
    results.push_back(source < 0 ? make_tensor(value_of(graph, node.outputs[i]).type)
                                 : copy_tensor(*inputs[static_cast<size_t>(source)]));
  }
  for (HostTensor& result : results) args.push_back(result.data.data());
  if (node.kernel->call)
    prepare_call(*node.kernel)->run(args);
  else
    evaluate(*node.kernel, args);
  return results;
}

// Tensors live from the node that makes them to the last that reads them.
class ReferenceRun {
 public:
  ReferenceRun(const Graph& graph, const std::vector<HostTensor>& inputs, const TensorSet* weights)
      : graph_(graph), tensors_(graph.values.size()), readers_(graph.values.size()) {
    for (const Node& node : graph.nodes)
      for (ValueId id : node.inputs)
        if (id != no_value) ++readers_[static_cast<size_t>(id)];
    for (const GraphOutput& output : graph.outputs) ++readers_[static_cast<size_t>(output.value)];
    for (size_t i = 0; i < graph.inputs.size(); ++i) tensors_[static_cast<size_t>(graph.inputs[i])] = inputs[i];
    std::vector<Problem> problems;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      if (readers_[v] == 0) continue;
      if (value.source == ValueSource::weight) tensors_[v] = reference_weight(value, weights, problems);
      if (value.source == ValueSource::constant) tensors_[v] = *value.data;
    }
    if (!problems.empty()) throw Error(ErrorKind::bad_input, std::move(problems));
  }

  std::vector<HostTensor> run() {
    for (const Node& node : graph_.nodes) {
      check_cancelled();
      evaluate_node(node);
    }
    std::vector<HostTensor> outputs;
    for (const GraphOutput& output : graph_.outputs) outputs.push_back(tensors_[static_cast<size_t>(output.value)]);
    return outputs;
  }

 private:
  void evaluate_node(const Node& node) {
    if (node.outputs.empty() && node.op && node.op->record.is_check) return;
    std::vector<TensorView> views(node.inputs.size());
    std::vector<const TensorView*> inputs(node.inputs.size(), nullptr);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == no_value) continue;
      views[i] = view_of(tensors_[static_cast<size_t>(node.inputs[i])]);
      inputs[i] = &views[i];
    }
    std::vector<HostTensor> results;
    try {
      results = node.op ? evaluate_call(call_of(graph_, node), inputs) : evaluate_kernel(graph_, node, inputs);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("node {}: {}", node.name, error.what()));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (readers_[static_cast<size_t>(node.outputs[i])] > 0)
        tensors_[static_cast<size_t>(node.outputs[i])] = std::move(results[i]);
    for (ValueId id : node.inputs)
      if (id != no_value && --readers_[static_cast<size_t>(id)] == 0) tensors_[static_cast<size_t>(id)] = {};
  }

  const Graph& graph_;
  std::vector<HostTensor> tensors_;  // by value
  std::vector<int64_t> readers_;     // by value: reads that are still to come
};

// One tensor for each input, of its shape, in any dtype.
void check_inputs(const Graph& graph, const std::vector<HostTensor>& inputs) {
  if (inputs.size() != graph.inputs.size())
    fail(ErrorKind::usage, "expected {} inputs, found {}", graph.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = value_of(graph, graph.inputs[i]);
    if (inputs[i].type.shape != value.type.shape || inputs[i].data.size() < byte_size(inputs[i].type))
      fail(ErrorKind::usage, "input '{}': expected {}, found {} in {} bytes", value.name, to_string(value.type),
           to_string(inputs[i].type), inputs[i].data.size());
  }
}

}  // namespace

std::vector<HostTensor> run_reference(const Graph& graph, const std::vector<HostTensor>& inputs,
                                      const TensorSet* weights) {
  Graph plain = graph;
  PassContext context;
  functionalize(plain, context);
  raise_violations(context);
  std::vector<HostTensor> outputs = ReferenceRun(plain, inputs, weights).run();
  outputs.resize(graph.outputs.size());  // without what weights became
  return outputs;
}

Evaluated evaluate_ir(const MethodSource& source, const std::vector<HostTensor>& inputs, const TensorSet* weights) {
  Graph graph = import_ir(source.json.empty() ? read_file(source.path) : source.json, source.path,
                          {.find_plugin = find_aten_plugin});
  const bool draws = !graph.inputs.empty() && value_of(graph, graph.inputs.back()).generator;
  const auto seed = static_cast<std::ptrdiff_t>(graph.inputs.size()) - 1,  // of the generator, if there is one
      next_seed = static_cast<std::ptrdiff_t>(graph.outputs.size()) - 1;
  PassContext context;
  functionalize(graph, context);
  raise_violations(context);
  // Weights that the nodes write into are inputs where they are given as such.
  if (inputs.size() > graph.inputs.size()) keep_written_weights(graph);
  std::vector<HostTensor> declared = inputs;
  if (draws && declared.size() + 1 == graph.inputs.size())
    declared.insert(declared.begin() + seed,
                    make_tensor(value_of(graph, graph.inputs[static_cast<size_t>(seed)]).type));
  check_inputs(graph, declared);
  for (size_t i = 0; i < declared.size(); ++i)
    if (const DType dtype = value_of(graph, graph.inputs[i]).type.dtype; declared[i].type.dtype != dtype)
      declared[i] = convert_tensor(view_of(declared[i]), dtype);
  Evaluated found{run_reference(graph, declared, weights), {}};
  if (draws) found.outputs.erase(found.outputs.begin() + next_seed);
  std::set<DType> dtypes;
  for (const Value& value : graph.values) dtypes.insert(value.type.dtype);
  found.dtypes.assign(dtypes.begin(), dtypes.end());
  return found;
}

}  // namespace npusim
