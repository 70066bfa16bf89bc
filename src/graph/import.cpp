// Import of IR JSON: document to names to nodes, reporting all problems together.
#include "graph/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "graph/attrs.h"
#include "graph/bind.h"
#include "graph/call.h"
#include "graph/generator.h"
#include "graph/resolve.h"
#include "graph/rotary.h"

namespace npusim {
namespace {

struct OpName {
  const Op* op = nullptr;
  bool in_place = false;
  std::shared_ptr<const Schema> plugin = nullptr;  // of an operator without a record that the plugin knows
};

// "aten::add", "torch.ops.aten.add", "aten.add" -> "aten.add.default"
std::string normalize_op_type(std::string_view op_type) {
  if (op_type.starts_with("torch.ops.")) op_type.remove_prefix(10);
  std::string name(op_type);
  if (const size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  if (name.starts_with("aten.") && name.find('.', 5) == std::string::npos) name += ".default";
  return name;
}

bool is_getitem(std::string_view op_type) {
  return op_type == "<built-in function getitem>" || op_type == "_operator.getitem" || op_type == "operator.getitem";
}

// Ops that only check: nothing of them is left in a static program.
bool is_unknown_check(std::string_view op) {
  return op.starts_with("aten._assert_") || op.starts_with("aten.sym_constrain");
}

// The position in its tuple that an output's name "{node}_{i}" gives; -1 for other names.
int64_t tuple_position(std::string_view node, std::string_view output) {
  if (!output.starts_with(node) || output.size() < node.size() + 2 || output[node.size()] != '_') return -1;
  const std::string_view digits = output.substr(node.size() + 1);
  int64_t position = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), position);
  return error == std::errc{} && end == digits.data() + digits.size() ? position : -1;
}

// The message without the op's name, which the label before it gives.
std::string_view without_op(std::string_view message, const Op& op) {
  if (message.starts_with(op.name()) && message.substr(op.name().size()).starts_with(": "))
    message.remove_prefix(op.name().size() + 2);
  return message;
}

class Importer {
 public:
  Importer(const IrDocument& document, Problems& problems, Graph& graph, const ImportOptions& options)
      : document_(document),
        problems_(problems),
        graph_(graph),
        options_(options),
        notes_(options.notes),
        resolver_(document, problems, graph) {}

  void run() {
    graph_.name = std::string(document_.model_name);
    graph_.nodes.reserve(document_.nodes.size());
    for (size_t i = 0; i < document_.nodes.size(); ++i) import_node(static_cast<int32_t>(i));
    for (const IrTensor& tensor : document_.outputs)
      graph_.outputs.push_back({std::string(tensor.name), resolver_.output(tensor)});
    for (const auto& [input, output] : document_.states)
      graph_.outputs[static_cast<size_t>(output)].next_of = graph_.inputs[static_cast<size_t>(input)];
    graph_.aliases = document_.aliases;
    report_unknown();
    if (notes_ && !problems_.count)
      for (const auto& [op, nodes] : calls_)
        notes_->push_back(fmt::format("{} runs {}, for which there is no kernel ({} node{}: {}{})", name_of(*plugin_),
                                      op, nodes.size(), nodes.size() == 1 ? "" : "s",
                                      fmt::join(std::span(nodes).first(std::min<size_t>(nodes.size(), 6)), ", "),
                                      nodes.size() > 6 ? ", …" : ""));
  }

 private:
  struct Unknown {
    std::string_view op;
    std::string reason;  // why the plugin does not run it; empty: nobody asked
  };

  void import_node(int32_t position) {
    const IrNode& node = document_.nodes[static_cast<size_t>(position)];
    std::vector<ValueId> inputs;
    inputs.reserve(node.inputs.size());
    for (const IrTensor& tensor : node.inputs) inputs.push_back(resolver_.input(tensor, position));
    if (is_getitem(node.op_type)) return resolver_.publish(position, {getitem(node, inputs)});
    std::vector<ValueId> outputs;
    for (const IrTensor& tensor : node.outputs) outputs.push_back(resolver_.make_value(tensor, &node));
    resolver_.publish(position, outputs);
    if (node.broken) return;
    const OpName found = find(node.op_type);
    try {
      if (node.op_type == rotary_op && !rotary(node, inputs, outputs, found.op)) return;
      if (found.op) return call(position, node, inputs, outputs, found);
      if (found.plugin) return plugin_call(position, node, inputs, outputs, *found.plugin);
    } catch (const Error& error) {
      const std::string_view message = found.op ? without_op(error.what(), *found.op) : error.what();
      problems_.add(error.kind(), label(node), "{}", message);
    }
  }

  // The record of an op; nodes of unknown ones are kept for the report.
  OpName find(std::string_view op_type) {
    const auto [it, fresh] = ops_.try_emplace(op_type);
    if (fresh) {
      const std::string name = normalize_op_type(op_type);
      it->second = {find_op(name), is_in_place(name)};
      if (!it->second.op && !is_unknown_check(name) && op_type != rotary_op) ask_plugin(op_type, name, it->second);
    }
    return it->second;
  }

  void ask_plugin(std::string_view op_type, const std::string& name, OpName& found) {
    std::string reason;
    if (options_.find_plugin && unknown_.empty() && !plugin_) plugin_ = options_.find_plugin(no_plugin_);
    if (plugin_) found.plugin = plugin_schema(*plugin_, name, reason);
    if (!found.plugin) unknown_.push_back({op_type, std::move(reason)});
  }

  void report_unknown() {
    if (unknown_.empty()) return;
    std::unordered_map<std::string_view, std::vector<std::string_view>> users;
    for (const Unknown& unknown : unknown_) users[unknown.op];
    for (const IrNode& node : document_.nodes)
      if (const auto it = users.find(node.op_type); it != users.end() && !node.broken) it->second.push_back(node.name);
    for (const auto& [op, reason] : unknown_) {
      const auto& names = users[op];
      const size_t shown = std::min<size_t>(names.size(), 20);
      problems_.unsupported("", "op {} is not supported ({} node{}: {}{}){}{}", op, names.size(),
                            names.size() == 1 ? "" : "s",
                            fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                            shown < names.size() ? ", …" : "", reason.empty() ? "" : "; ", reason);
    }
    if (!no_plugin_.empty()) problems_.unsupported("", "{}", no_plugin_);
  }

  // The element of a tuple: a value that exists already.
  ValueId getitem(const IrNode& node, const std::vector<ValueId>& inputs) {
    const ValueId id = node.broken ? no_value : find_element(node, inputs);
    if (node.outputs.size() != 1 && id != no_value)
      problems_.bad(label(node), "expected one output, found {}", node.outputs.size());
    IrTensor declared = node.outputs.empty() ? IrTensor{} : node.outputs[0];
    if (id == no_value || node.outputs.empty()) {
      declared.broken = true;
      return resolver_.make_value(declared, &node);
    }
    const TensorType& type = value_of(graph_, id).type;
    if (!declared.broken && !resolver_.broken(id) && (!declared.known_dtype || declared.type != type))
      problems_.bad(label(node), "declares its output as {}{}, but the element is {}", declared.dtype,
                    to_string(declared.type.shape), to_string(type));
    return id;
  }

  ValueId find_element(const IrNode& node, const std::vector<ValueId>& inputs) {
    const auto it = node.attrs ? node.attrs->find("index") : nlohmann::json::const_iterator{};
    if (!node.attrs || it == node.attrs->end() || !it->is_number_integer() || node.inputs.empty()) {
      problems_.bad(label(node), "expected tensors and an integer attribute 'index'");
      return no_value;
    }
    // The index counts the whole tuple, in which elements that are no tensors have left no trace but the names.
    const int32_t producer = resolver_.find_node(node.inputs[0].producer);
    const IrNode* tuple = producer < 0 ? nullptr : &document_.nodes[static_cast<size_t>(producer)];
    const std::vector<IrTensor>& elements = tuple ? tuple->outputs : node.inputs;
    const std::vector<ValueId>& values = tuple ? resolver_.results(producer) : inputs;
    auto index = it->get<int64_t>();
    if (index < 0) index += static_cast<int64_t>(elements.size());
    bool positions_named = false;
    for (size_t k = 0; tuple && k < std::min(elements.size(), values.size()); ++k) {
      const int64_t position = tuple_position(tuple->name, elements[k].name);
      if (position == index) return values[k];
      positions_named = positions_named || position >= 0;
    }
    if (!positions_named && index >= 0 && static_cast<size_t>(index) < values.size())
      return values[static_cast<size_t>(index)];
    if (tuple && resolver_.broken(inputs[0])) return no_value;
    problems_.bad(label(node), "element {} of {} is no tensor", it->get<int64_t>(),
                  tuple ? label(*tuple) : "the tuple");
    return no_value;
  }

  // Whether the node is left to the record of its op; expanded or refused here otherwise.
  bool rotary(const IrNode& node, const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
              const Op* op) {
    if (any_broken(inputs) || any_broken(outputs)) return false;
    std::vector<TensorType> input_types, output_types;
    for (ValueId id : inputs) input_types.push_back(value_of(graph_, id).type);
    for (ValueId id : outputs) output_types.push_back(value_of(graph_, id).type);
    if (const std::string reason = refuse_rotary(input_types, output_types); !reason.empty())
      fail(ErrorKind::unsupported, "{}", reason);
    if (node.attrs && !node.attrs->empty())
      fail(ErrorKind::unsupported, "is understood only without attributes, as a rotary embedding");
    if (interleaved_)
      fail(ErrorKind::unsupported,
           "is a rotary embedding whose body the file has lost, in a graph that takes every second element: pairs may "
           "be "
           "interleaved or halves, which cannot be told");
    std::string type;
    if (const std::string reason = refuse_rotary_body(problems_.where, type); !reason.empty())
      fail(ErrorKind::unsupported, "{}", reason);
    if (notes_)
      notes_->push_back(
          fmt::format("{} is taken for a rotary embedding, cos and sin unscaled: its body is lost, and "
                      "config.json says type {}",
                      label(node), json_quoted(type)));
    if (op) return true;
    expand_rotary(graph_, std::string(node.name), inputs[0], inputs[1], outputs);
    return false;
  }

  void call(int32_t position, const IrNode& ir, const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
            const OpName& found) {
    std::vector<BoundTensor> tensors;
    for (size_t i = 0; i < inputs.size(); ++i) tensors.push_back(bound(inputs[i], ir.inputs[i].name));
    auto named = [&](std::string_view name) { return bound(resolver_.named(name, position), name); };
    auto fits = [&](const Binding& binding) { return any_broken(binding.inputs) || fit(binding, outputs, *found.op); };
    Binding binding = bind_arguments(found.op->schema, ir, tensors, named, fits);
    Node node;
    node.name = std::string(ir.name);
    node.op = found.op;
    node.in_place = found.in_place;
    node.inputs = std::move(binding.inputs);
    node.list_sizes = std::move(binding.list_sizes);
    node.attrs = std::move(binding.attrs);
    node.outputs = outputs;
    if (const std::string problem = check_operands(node); !problem.empty()) fail(ErrorKind::bad_input, "{}", problem);
    if (!any_broken(node.inputs) && !any_broken(outputs)) complete(node, ir);
    add_node(graph_, std::move(node));
  }

  // The kernel that is the call. Only what is whole is shown to the plugin.
  void plugin_call(int32_t position, const IrNode& ir, const std::vector<ValueId>& inputs,
                   const std::vector<ValueId>& outputs, const Schema& schema) {
    std::vector<BoundTensor> tensors;
    for (size_t i = 0; i < inputs.size(); ++i) tensors.push_back(bound(inputs[i], ir.inputs[i].name));
    auto named = [&](std::string_view name) { return bound(resolver_.named(name, position), name); };
    const Binding binding = bind_arguments(schema, ir, tensors, named, [](const Binding&) { return true; });
    if (any_broken(binding.inputs) || any_broken(outputs)) return;
    Node node = call_node(graph_, schema, binding, outputs);
    node.name = std::string(ir.name);
    prepare_call(plugin_, *node.kernel);  // throws where it cannot be run
    add_node(graph_, std::move(node));
    calls_[schema.name].push_back(ir.name);
  }

  // A result's name says what made it, not what it is to its reader: `max_1` may be a lower bound.
  BoundTensor bound(ValueId id, std::string_view name) const {
    const Value& value = value_of(graph_, id);
    if (value.source == ValueSource::node) return {"", id};
    return {value.fqn.empty() ? name : std::string_view(value.fqn), id, name.starts_with("b_"), name.starts_with("p_")};
  }

  bool any_broken(const std::vector<ValueId>& ids) const {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return id != no_value && resolver_.broken(id); });
  }

  bool fit(const Binding& binding, const std::vector<ValueId>& outputs, const Op& op) const {
    Node node;
    node.op = &op;
    node.inputs = binding.inputs;
    node.list_sizes = binding.list_sizes;
    node.attrs = binding.attrs;
    node.outputs = outputs;
    try {
      if (!check_operands(node).empty()) return false;
      if (!op.record.infer || static_cast<int>(outputs.size()) < op.schema.results) return true;
      return check_call(call_of(graph_, node)).empty();
    } catch (const Error&) {
      return false;
    }
  }

  // Checks the call, and adds the results the file leaves out because eager PyTorch returns None or a number there:
  // afterwards the node has one output per result of its schema.
  void complete(Node& node, const IrNode& ir) {
    const Op& op = *node.op;
    OpCall question = call_of(graph_, node);
    const auto declared = static_cast<int>(node.outputs.size());
    if (op.schema.results >= 0 && declared > op.schema.results)
      return problems_.bad(label(ir), "declares {} results, expected {}", declared, op.schema.results);
    if (declared < op.schema.results && !op.record.is_check) {
      question.outputs.clear();
      if (!op.record.infer) fail(ErrorKind::unsupported, "declares {} results of {}", declared, op.schema.results);
      add_results(node, ir, op.record.infer(question));
    }
    const OpCall call = call_of(graph_, node);
    if (op.record.refuse)
      if (const std::string reason = op.record.refuse(call); !reason.empty())
        return problems_.unsupported(label(ir), "{}", without_op(reason, op));
    if (const std::string problem = check_call(call); !problem.empty())
      problems_.bad(label(ir), "{}", without_op(problem, op));
  }

  void add_results(Node& node, const IrNode& ir, const std::vector<TensorType>& types) {
    std::vector<ValueId> all(types.size(), no_value);
    for (size_t k = 0; k < ir.outputs.size(); ++k) {
      const int64_t named = tuple_position(ir.name, ir.outputs[k].name);
      const size_t at = named < 0 ? k : static_cast<size_t>(named);
      if (at >= all.size() || all[at] != no_value)
        fail(ErrorKind::bad_input, "output '{}' is no result of the op", ir.outputs[k].name);
      all[at] = node.outputs[k];
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] == no_value) all[i] = add_value(graph_, fmt::format("{}_{}", ir.name, i), types[i]);
    node.outputs = std::move(all);
  }

  // Whether any node slices with step 2, as models do that rotate interleaved pairs.
  static bool takes_every_second(const IrDocument& document) {
    return std::any_of(document.nodes.begin(), document.nodes.end(), [](const IrNode& node) {
      if (!node.attrs) return false;
      const auto step = node.attrs->find("step");
      return step != node.attrs->end() && step->is_number_integer() && step->template get<int64_t>() == 2;
    });
  }

  const IrDocument& document_;
  Problems& problems_;
  Graph& graph_;
  const ImportOptions& options_;
  std::shared_ptr<const AtenPlugin> plugin_;
  std::string no_plugin_;  // why there is none, where it was looked for
  std::vector<std::string>* notes_;
  const bool interleaved_ = takes_every_second(document_);
  Resolver resolver_;
  std::unordered_map<std::string_view, OpName> ops_;
  std::vector<Unknown> unknown_;                                // in order of first use
  std::map<std::string, std::vector<std::string_view>> calls_;  // nodes of each op that the plugin runs
};

bool is_embedding(std::string_view name) {
  return name.find("embed") != std::string_view::npos || name.find("wte") != std::string_view::npos ||
         name.find("shared") != std::string_view::npos;
}

// Tied embeddings: the IR lists both names, the graph reads one, and a checkpoint may hold only the other. A weight
// that no node reads lends its name to the read one of its type when either is called an embedding.
void name_tied_weights(const IrDocument& document, Graph& graph) {
  std::unordered_map<std::string, std::vector<Value*>> read;
  std::unordered_map<std::string_view, bool> used;
  for (Value& value : graph.values) {
    if (value.source != ValueSource::weight || value.type.shape.size() != 2) continue;
    read[to_string(value.type)].push_back(&value);
    used[value.fqn] = true;
  }
  for (const IrTensor& weight : document.weights) {
    if (used.count(weight.name)) continue;
    const auto same = read.find(to_string(weight.type));
    if (same == read.end()) continue;
    for (Value* value : same->second)
      if (is_embedding(weight.name) || is_embedding(value->fqn)) value->tied.emplace_back(weight.name);
  }
}

}  // namespace

Graph import_ir(std::string_view json, const std::string& where, const ImportOptions& options) {
  Problems problems;
  problems.where = where;
  problems.limit = static_cast<size_t>(std::max(options.max_problems, 1));
  const IrDocument document = read_document(json, problems);
  Graph graph;
  Importer(document, problems, graph, options).run();
  problems.raise();
  name_tied_weights(document, graph);
  set_origins(graph);
  add_generator(graph);
  return graph;
}

}  // namespace npusim
