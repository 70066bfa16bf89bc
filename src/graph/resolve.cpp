// Resolution of names: producers first, then weight placeholders, then plain names.
#include "graph/resolve.h"

#include "graph/attrs.h"

namespace npusim {
namespace {

constexpr int32_t graph_output = -1;  // as a reader

}  // namespace

std::string label(const IrNode& node) { return fmt::format("node '{}' ({})", node.name, node.op_type); }

Resolver::Resolver(const IrDocument& document, Problems& problems, Graph& graph)
    : document_(document), problems_(problems), graph_(graph) {
  results_.resize(document.nodes.size());
  published_.resize(document.nodes.size());
  for (const IrTensor& tensor : document.inputs) {
    const ValueId id = make_value(tensor, nullptr, "graph input");
    value_of(graph, id).source = ValueSource::input;
    graph.inputs.push_back(id);
    if (!tensor.name.empty() && !inputs_.emplace(tensor.name, id).second)
      problems.bad(fmt::format("graph input '{}'", tensor.name), "the name is given twice");
  }
  index_names();
}

void Resolver::index_names() {
  for (size_t i = 0; i < document_.weights.size(); ++i) {
    const IrTensor& weight = document_.weights[i];
    const auto [it, fresh] = weights_.emplace(weight.name, i);
    if (fresh) continue;
    const IrTensor& other = document_.weights[it->second];
    if (other.type != weight.type || other.dtype != weight.dtype)
      problems_.bad(fmt::format("weight '{}'", weight.name), "declared as {} and as {}", to_string(other.type),
                    to_string(weight.type));
  }
  for (size_t i = 0; i < document_.nodes.size(); ++i) {
    const IrNode& node = document_.nodes[i];
    const auto position = static_cast<int32_t>(i);
    if (!node.name.empty() && !nodes_.emplace(node.name, position).second)
      problems_.bad(label(node), "the name is given to two nodes");
    if (inputs_.count(node.name)) problems_.bad(label(node), "the name is a graph input's too");
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].name.empty()) continue;
      Outputs& outputs = outputs_[node.outputs[k].name];
      if (node.outputs.size() == 1) {
        if (outputs.node >= 0)
          problems_.bad(label(node), "its output '{}' is also that of {}", node.outputs[k].name,
                        label(document_.nodes[static_cast<size_t>(outputs.node)]));
        outputs.node = position;
      } else {
        outputs.several = outputs.tuple >= 0;
        outputs.tuple = position;
        outputs.element = static_cast<int64_t>(k);
      }
    }
  }
}

int32_t Resolver::find_node(std::string_view name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? -1 : it->second;
}

void Resolver::publish(int32_t node, std::vector<ValueId> values) {
  value_node_.resize(graph_.values.size());
  for (ValueId id : values)
    if (value_node_[static_cast<size_t>(id)].empty())
      value_node_[static_cast<size_t>(id)] = document_.nodes[static_cast<size_t>(node)].name;
  results_[static_cast<size_t>(node)] = std::move(values);
  published_[static_cast<size_t>(node)] = true;
}

void Resolver::mark_broken(ValueId id) {
  broken_.resize(graph_.values.size());
  broken_[static_cast<size_t>(id)] = true;
}

ValueId Resolver::make_broken(const IrTensor& tensor) {
  const ValueId id = add_value(graph_, std::string(tensor.name), tensor.type);
  mark_broken(id);
  return id;
}

ValueId Resolver::make_value(const IrTensor& tensor, const IrNode* node, std::string_view what) {
  if (tensor.broken) return make_broken(tensor);
  if (tensor.known_dtype) return add_value(graph_, std::string(tensor.name), tensor.type);
  problems_.unsupported(node ? label(*node) : "", "{} '{}': dtype {} is not supported", what, tensor.name,
                        tensor.dtype);
  return make_broken(tensor);
}

std::string Resolver::reader_label(int32_t reader) const {
  return reader == graph_output ? "graph output" : label(document_.nodes[static_cast<size_t>(reader)]);
}

std::string Resolver::source_label(ValueId id) const {
  const Value& value = value_of(graph_, id);
  if (value.source == ValueSource::input) return fmt::format("graph input '{}'", value.name);
  if (!value.fqn.empty()) return fmt::format("weight '{}'", value.fqn);
  return fmt::format("node '{}'", value_node_[static_cast<size_t>(id)]);
}

void Resolver::check_type(const IrTensor& tensor, ValueId id, int32_t reader) {
  const Value& value = value_of(graph_, id);
  if (tensor.broken || broken(id)) return;
  if (tensor.known_dtype && tensor.type == value.type) return;
  problems_.bad(reader_label(reader), "reads '{}' as {}{}, but {} is {}", tensor.name, tensor.dtype,
                to_string(tensor.type.shape), source_label(id), to_string(value.type));
}

ValueId Resolver::published(int32_t node, int64_t element, int32_t reader) {
  const IrNode& producer = document_.nodes[static_cast<size_t>(node)];
  if (!published_[static_cast<size_t>(node)]) {
    problems_.bad(reader_label(reader), "reads '{}', which is produced {}", producer.name,
                  node == reader ? "by itself" : "later: nodes must stand in topological order");
    return no_value;
  }
  const std::vector<ValueId>& results = results_[static_cast<size_t>(node)];
  if (element >= 0 && static_cast<size_t>(element) < results.size()) return results[static_cast<size_t>(element)];
  problems_.bad(reader_label(reader), "reads output {} of {}, which has {}", element, label(producer), results.size());
  return no_value;
}

// The tensor of `node` that is meant: by its index, else the one of that name, else the only one.
ValueId Resolver::result(int32_t node, const IrTensor& tensor, int32_t reader) {
  const IrNode& producer = document_.nodes[static_cast<size_t>(node)];
  int64_t named = -1;
  for (size_t k = 0; k < producer.outputs.size() && named < 0; ++k)
    if (producer.outputs[k].name == tensor.name) named = static_cast<int64_t>(k);
  if (tensor.index >= 0 && named >= 0 && named != tensor.index)
    problems_.bad(reader_label(reader), "reads '{}' as output {} of {}, but it is output {}", tensor.name, tensor.index,
                  label(producer), named);
  if (tensor.index >= 0) return published(node, tensor.index, reader);
  if (named >= 0) return published(node, named, reader);
  if (producer.outputs.size() <= 1) return published(node, 0, reader);
  problems_.bad(reader_label(reader), "reads '{}' of {} without saying which output", tensor.name, label(producer));
  return no_value;
}

bool Resolver::is_weight(std::string_view name) const {
  return document_.weight_names.count(name) || weights_.count(name) || document_.constants.count(name);
}

ValueId Resolver::weight(const IrTensor& tensor, std::string_view name) {
  const auto mapped = document_.weight_names.find(name);
  const std::string_view fqn = mapped == document_.weight_names.end() ? name : mapped->second;
  const auto [it, fresh] = weight_values_.try_emplace(fqn, no_value);
  if (!fresh) return it->second;
  auto declared = weights_.find(fqn);
  if (declared == weights_.end()) declared = weights_.find(name);
  IrTensor made = declared == weights_.end() ? tensor : document_.weights[declared->second];
  made.name = name;
  const ValueId id = make_value(made, nullptr, "weight");
  it->second = id;
  Value& value = value_of(graph_, id);
  value.source = ValueSource::weight;
  value.fqn = std::string(fqn);
  auto constant = document_.constants.find(fqn);
  if (constant == document_.constants.end()) constant = document_.constants.find(name);
  if (constant != document_.constants.end() && !broken(id)) fill_constant(value, constant->second);
  return id;
}

void Resolver::fill_constant(Value& value, const IrConstant& constant) {
  value.source = ValueSource::constant;
  if (parse_dtype(constant.dtype) != value.type.dtype)
    return problems_.bad(fmt::format("constant '{}'", value.fqn), "declared as {}, but its data is {}",
                         to_string(value.type), constant.dtype);
  try {
    value.data = std::make_shared<const HostTensor>(read_constant(*constant.data, value.type));
  } catch (const Error& error) {
    problems_.add(error.kind(), fmt::format("constant '{}'", value.fqn), "{}", error.what());
  }
}

// Files without producers: the name is all there is, so it must mean one thing.
ValueId Resolver::find_by_name(const IrTensor& tensor, int32_t reader) {
  const auto input = inputs_.find(tensor.name);
  const auto output = outputs_.find(tensor.name);
  const Outputs found = output == outputs_.end() ? Outputs{} : output->second;
  const bool weight_named = is_weight(tensor.name), input_named = input != inputs_.end();
  const int meanings = weight_named + input_named + (found.node >= 0) + (found.tuple >= 0) + found.several;
  if (meanings > 1 && reader != graph_output) {
    std::string text;
    auto add = [&](bool holds, std::string_view what) {
      if (holds) text += (text.empty() ? "" : ", ") + std::string(what);
    };
    add(weight_named, "a weight");
    add(input_named, "a graph input");
    if (found.node >= 0) add(true, "the output of " + label(document_.nodes[static_cast<size_t>(found.node)]));
    if (found.tuple >= 0) add(true, "an output of " + label(document_.nodes[static_cast<size_t>(found.tuple)]));
    problems_.bad(reader_label(reader), "reads '{}' without producer_node, and the name is {}{}", tensor.name, text,
                  found.several ? " and others" : "");
    return no_value;
  }
  if (found.node >= 0) return published(found.node, 0, reader);
  if (found.tuple >= 0) return published(found.tuple, found.element, reader);
  if (input_named) return input->second;
  if (weight_named) return weight(tensor, tensor.name);
  problems_.bad(reader_label(reader), "reads '{}', which is no output, graph input or weight", tensor.name);
  return no_value;
}

ValueId Resolver::find(const IrTensor& tensor, int32_t reader) {
  if (tensor.producer.empty()) {
    if (reader != graph_output && document_.weight_names.count(tensor.name)) return weight(tensor, tensor.name);
    return find_by_name(tensor, reader);
  }
  if (const int32_t node = find_node(tensor.producer); node >= 0) return result(node, tensor, reader);
  if (const auto it = inputs_.find(tensor.producer); it != inputs_.end()) return it->second;
  if (is_weight(tensor.producer)) return weight(tensor, tensor.producer);
  problems_.bad(reader_label(reader), "reads '{}' of '{}', which is no node, graph input or weight", tensor.name,
                tensor.producer);
  return no_value;
}

ValueId Resolver::input(const IrTensor& tensor, int32_t reader) {
  if (tensor.name.empty() && tensor.broken) return make_broken(tensor);
  const ValueId id = find(tensor, reader);
  if (id == no_value) return make_broken(tensor);
  check_type(tensor, id, reader);
  return id;
}

ValueId Resolver::output(const IrTensor& tensor) { return input(tensor, graph_output); }

ValueId Resolver::named(std::string_view name, int32_t reader) {
  if (const int32_t node = find_node(name); node >= 0) {
    const IrNode& producer = document_.nodes[static_cast<size_t>(node)];
    if (!published_[static_cast<size_t>(node)])
      fail(ErrorKind::bad_input, "reads '{}', which is produced {}", name, node == reader ? "by itself" : "later");
    if (producer.outputs.size() == 1) return results_[static_cast<size_t>(node)][0];
    fail(ErrorKind::bad_input, "names {}, which has {} outputs", label(producer), producer.outputs.size());
  }
  if (const auto it = inputs_.find(name); it != inputs_.end()) return it->second;
  const auto mapped = document_.weight_names.find(name);
  const auto declared = weights_.find(mapped == document_.weight_names.end() ? name : mapped->second);
  if (declared != weights_.end()) return weight(document_.weights[declared->second], name);
  fail(ErrorKind::bad_input, "expected a number or a tensor's name, found '{}'", name);
}

}  // namespace npusim
