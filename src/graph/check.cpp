// The verifier: what must hold of a graph between passes.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "graph/graph.h"

namespace npusim {
namespace {

constexpr size_t max_problems = 50;

struct Checker {
  const Graph& graph;
  std::vector<std::string> problems;
  std::unordered_set<const Kernel*> sound = {};  // nodes may share one

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (problems.size() < max_problems) problems.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool valid(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph.values.size(); }

  void check_values() {
    std::unordered_set<std::string_view> names;
    for (const Value& value : graph.values) {
      if (value.name.empty()) add("a value has no name");
      if (!names.insert(value.name).second) add("value '{}': the name is not unique", value.name);
      if (!graph.names.count(value.name)) add("value '{}': the name is not registered", value.name);
      size_t bytes = 0;
      try {
        bytes = byte_size(value.type);
      } catch (const Error& error) {
        add("value '{}': {}", value.name, error.what());
        continue;
      }
      if (value.source == ValueSource::weight && value.fqn.empty()) add("weight '{}': has no FQN", value.name);
      if (value.source != ValueSource::node && value.producer >= 0) add("value '{}': has a producer", value.name);
      if (value.source != ValueSource::constant) continue;
      if (!value.data)
        add("constant '{}': has no data", value.name);
      else if (value.data->type != value.type || value.data->data.size() != bytes)
        add("constant '{}': is {}, its data {} of {} bytes", value.name, to_string(value.type),
            to_string(value.data->type), value.data->data.size());
    }
  }

  void check_ends() {
    std::vector<int> listed(graph.values.size());
    for (ValueId id : graph.inputs) {
      if (!valid(id)) {
        add("graph input {} is no value", id);
        continue;
      }
      if (value_of(graph, id).source != ValueSource::input)
        add("graph input '{}': is no input", value_of(graph, id).name);
      if (listed[static_cast<size_t>(id)]++) add("graph input '{}': is listed twice", value_of(graph, id).name);
    }
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (graph.values[i].source == ValueSource::input && !listed[i])
        add("input '{}': is not among the graph's inputs", graph.values[i].name);
    for (const GraphOutput& output : graph.outputs) {
      if (!valid(output.value))
        add("graph output '{}': {} is no value", output.name, output.value);
      else if (const Value& value = value_of(graph, output.value);
               value.source == ValueSource::node && value.producer < 0)
        add("graph output '{}': nothing computes '{}'", output.name, value.name);
    }
  }

  // Ids in range, one producer per value, producers before readers. False when the ids cannot be used.
  bool check_edges(const Node& node, int32_t position, std::vector<bool>& produced) {
    bool usable = true;
    for (ValueId id : node.inputs) {
      if (id == no_value && node.op) continue;
      if (!valid(id)) {
        add("node '{}': input {} is no value", node.name, id);
        usable = false;
      } else if (value_of(graph, id).source == ValueSource::node && !produced[static_cast<size_t>(id)]) {
        add("node '{}': reads '{}' before it is computed", node.name, value_of(graph, id).name);
      }
    }
    for (ValueId id : node.outputs) {
      if (!valid(id)) {
        add("node '{}': output {} is no value", node.name, id);
        usable = false;
        continue;
      }
      const Value& value = value_of(graph, id);
      if (value.source != ValueSource::node) add("node '{}': computes '{}', which is given", node.name, value.name);
      if (produced[static_cast<size_t>(id)]) add("node '{}': computes '{}' once more", node.name, value.name);
      if (value.producer != position)
        add("value '{}': its producer is {}, but node {} computes it", value.name, value.producer, position);
      produced[static_cast<size_t>(id)] = true;
    }
    return usable;
  }

  void check_call_form(const Node& node) {
    const Schema& schema = node.op->schema;
    size_t tensors = 0, lists = 0;
    for (const SchemaArg& arg : schema.args) {
      tensors += arg.kind == ArgKind::tensor;
      lists += arg.kind == ArgKind::tensor_list;
    }
    const bool random = draws(call_of(graph, node));  // with what add_generator() gave it
    tensors += random;
    if (node.list_sizes.size() != lists)
      return add("node '{}': has {} list sizes, expected {}", node.name, node.list_sizes.size(), lists);
    for (int size : node.list_sizes) {
      if (size < 0) return add("node '{}': has a list of {}", node.name, size);
      tensors += static_cast<size_t>(size);
    }
    if (node.inputs.size() != tensors)
      return add("node '{}': has {} inputs, expected {}", node.name, node.inputs.size(), tensors);
    if (const size_t attrs = schema.args.size() + random; node.attrs.size() != attrs)
      return add("node '{}': has {} attributes, expected {}", node.name, node.attrs.size(), attrs);
    if (schema.results >= 0 && !node.op->record.is_check && node.outputs.size() != static_cast<size_t>(schema.results))
      return add("node '{}': has {} outputs, expected {}", node.name, node.outputs.size(), schema.results);
    check_shapes(node);
  }

  void check_shapes(const Node& node) {
    if (const std::string problem = check_operands(node); !problem.empty())
      return add("node '{}': {}", node.name, problem);
    try {
      if (const std::string problem = check_call(call_of(graph, node)); !problem.empty())
        add("node '{}': {}", node.name, problem);
    } catch (const Error& error) {
      add("node '{}': {}", node.name, error.what());
    }
  }

  void check_kernel_node(const Node& node) {
    const Kernel& kernel = *node.kernel;
    if (!sound.contains(&kernel)) {
      const std::vector<std::string> found = check_kernel(kernel);
      for (const std::string& problem : found) add("node '{}': kernel {}: {}", node.name, kernel.name, problem);
      if (!found.empty()) return;
      sound.insert(&kernel);
    }
    size_t read = 0, written = 0;
    for (const KernelArg& arg : kernel.args) {
      const std::vector<ValueId>& operands = arg.written ? node.outputs : node.inputs;
      size_t& at = arg.written ? written : read;
      if (at == operands.size()) {
        add("node '{}': kernel {} has more arguments than the node has operands", node.name, kernel.name);
        return;
      }
      const Value& value = value_of(graph, operands[at++]);
      if (value.type.dtype != arg.dtype || stored_elements(value.type, value.stored) != arg.elements)
        add("node '{}': kernel {} takes '{}' as {} x{}, it is {}", node.name, kernel.name, value.name,
            dtype_name(arg.dtype), arg.elements, to_string(value.type));
    }
    std::vector<ValueId> inputs = node.inputs;
    std::sort(inputs.begin(), inputs.end());
    if (const auto twice = std::adjacent_find(inputs.begin(), inputs.end()); twice != inputs.end())
      add("node '{}': kernel {} reads '{}' through two arguments", node.name, kernel.name,
          value_of(graph, *twice).name);
    if (read != node.inputs.size() || written != node.outputs.size())
      add("node '{}': kernel {} has {} arguments for {} operands", node.name, kernel.name, kernel.args.size(),
          node.inputs.size() + node.outputs.size());
  }

  void check_nodes() {
    std::vector<bool> produced(graph.values.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const bool usable = check_edges(node, static_cast<int32_t>(i), produced);
      if (!node.op == !node.kernel)
        add("node '{}': must be either an op or a kernel", node.name);
      else if (usable && node.op)
        check_call_form(node);
      else if (usable)
        check_kernel_node(node);
    }
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (graph.values[i].producer >= 0 && !produced[i]) add("value '{}': no node computes it", graph.values[i].name);
  }
};

}  // namespace

std::string check_operands(const Node& node) {
  const std::vector<SchemaArg>& args = node.op->schema.args;
  const bool pointwise = node.op->record.family == OpFamily::formula;
  // `2 - x` is sub.Tensor with a number first; ops without an `other` take their result's type from the first operand.
  const bool reflected = node.op->schema.find("other") >= 0 && !node.in_place;
  const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [](ValueId id) { return id != no_value; });
  size_t at = 0, list = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind == ArgKind::tensor_list) {
      if (!node.list_sizes[list] && !args[i].optional) return fmt::format("argument '{}' is empty", args[i].name);
      for (int k = 0; k < node.list_sizes[list]; ++k)
        if (node.inputs[at++] == no_value && !args[i].optional)
          return fmt::format("argument '{}' holds None", args[i].name);
      ++list;
    }
    if (args[i].kind != ArgKind::tensor) continue;
    const bool none = node.inputs[at++] == no_value;
    const bool empty = std::holds_alternative<std::monostate>(node.attrs[i]);
    if (!none && empty) continue;
    if (!none) return fmt::format("argument '{}' is a tensor and {}", args[i].name, to_string(node.attrs[i]));
    const bool number = any && pointwise && (at > 1 || reflected);
    if (empty ? !args[i].optional : !number)
      return fmt::format("argument '{}' must be a tensor, found {}", args[i].name, to_string(node.attrs[i]));
  }
  return {};
}

std::vector<std::string> check_graph(const Graph& graph) {
  Checker checker{graph, {}};
  checker.check_values();
  checker.check_ends();
  if (checker.problems.empty()) checker.check_nodes();
  return std::move(checker.problems);
}

}  // namespace npusim
