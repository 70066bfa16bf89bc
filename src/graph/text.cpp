// Printing of graphs.
#include "graph/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/attrs.h"

namespace npusim {
namespace {

constexpr int64_t listed_elements = 16;

bool is_identifier(std::string_view name) {
  auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), plain);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += '\\', result += c;
    else if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + "\"";
}

std::string name_text(std::string_view name) { return is_identifier(name) ? std::string(name) : quoted(name); }

std::string value_text(const Graph& graph, ValueId id) {
  return id == no_value ? "None" : "%" + name_text(value_of(graph, id).name);
}

// Always with a point, exponent or word, so that it is read back as a real number.
std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".einfa") == std::string::npos) text += ".0";
  return text;
}

std::string attr_text(const Attr& attr) {
  if (const double* real = std::get_if<double>(&attr)) return real_text(*real);
  if (const auto* text = std::get_if<std::string>(&attr)) return quoted(*text);
  if (const auto* reals = std::get_if<std::vector<double>>(&attr)) {
    std::string text;
    for (double real : *reals) text += (text.empty() ? "" : ", ") + real_text(real);
    return "[" + text + "]";
  }
  return to_string(attr);
}

std::string data_text(const HostTensor& tensor) {
  const int64_t count = element_count(tensor.type.shape);
  std::string text = "[";
  bool listed = count <= listed_elements;
  for (int64_t i = 0; listed && i < count; ++i) {
    if (i) text += ", ";
    if (!is_float(tensor.type.dtype)) {
      text += std::to_string(load_int(tensor.data.data(), tensor.type.dtype, i));
      continue;
    }
    const double value = load_double(tensor.data.data(), tensor.type.dtype, i);
    listed = !std::isnan(value);
    text += tensor.type.dtype == DType::f64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  }
  if (listed) return text + "]";
  text = "hex ";
  for (std::byte byte : tensor.data) fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned>(byte));
  return text;
}

// The schema's name, or that of its in-place form: "aten.__and__.Tensor" -> "aten.__iand__.Tensor".
std::string op_text(const Node& node) {
  std::string name = node.op->name();
  if (node.in_place && name.starts_with("aten.__"))
    name.insert(7, "i");
  else if (node.in_place)
    name.insert(name.rfind('.'), "_");
  return name;
}

void append_call(std::string& out, const Graph& graph, const Node& node) {
  std::string args;
  auto append = [&](const std::string& text) { args += (args.empty() ? "" : ", ") + text; };
  const std::vector<SchemaArg>& schema = node.op->schema.args;
  size_t at = 0, list = 0;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].kind == ArgKind::tensor_list) {
      std::string elements;
      for (int k = 0; k < node.list_sizes[list]; ++k)
        elements += (k ? ", " : "") + value_text(graph, node.inputs[at++]);
      append("[" + elements + "]");
      ++list;
    } else if (schema[i].kind == ArgKind::tensor) {
      const ValueId id = node.inputs[at++];
      append(id == no_value ? attr_text(node.attrs[i]) : value_text(graph, id));
    }
  }
  for (size_t i = 0; i < schema.size(); ++i) {
    if (is_operand(schema[i])) continue;
    const bool none = std::holds_alternative<std::monostate>(node.attrs[i]);
    if (none && std::holds_alternative<std::monostate>(default_attr(schema[i]))) continue;
    append(schema[i].name + "=" + attr_text(node.attrs[i]));
  }
  out += fmt::format("{}({})", op_text(node), args);
}

void append_kernel(std::string& out, const Graph& graph, const Node& node) {
  std::string args;
  for (ValueId id : node.inputs) args += (args.empty() ? "" : ", ") + value_text(graph, id);
  out += fmt::format("kernel {}({})", name_text(node.kernel->name), args);
}

void append_node(std::string& out, const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i)
    out += fmt::format("{}{}: {}", i ? ", " : "", value_text(graph, node.outputs[i]),
                       to_string(value_of(graph, node.outputs[i]).type));
  if (!node.outputs.empty()) out += " = ";
  if (node.kernel)
    append_kernel(out, graph, node);
  else
    append_call(out, graph, node);
  if (node.outputs.empty() || node.name != value_of(graph, node.outputs[0]).name) out += " @" + name_text(node.name);
  out += "\n";
  if (!node.kernel) return;
  const std::string body = to_text(*node.kernel);
  for (std::string_view text = body; !text.empty();) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("  {}\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string out = fmt::format("graph {}\n", quoted(graph.name));
  for (ValueId id : graph.inputs)
    out += fmt::format("input {}: {}\n", value_text(graph, id), to_string(value_of(graph, id).type));
  for (const Value& value : graph.values)
    if (value.source == ValueSource::weight)
      out += fmt::format("weight %{}: {} = {}\n", name_text(value.name), to_string(value.type), quoted(value.fqn));
  for (const Value& value : graph.values)
    if (value.source == ValueSource::constant) {
      out += fmt::format("constant %{}: {} = {}", name_text(value.name), to_string(value.type), data_text(*value.data));
      out += value.fqn.empty() ? "\n" : fmt::format(" as {}\n", quoted(value.fqn));
    }
  for (const Node& node : graph.nodes) append_node(out, graph, node);
  for (const GraphOutput& output : graph.outputs) {
    const bool same = output.name == value_of(graph, output.value).name;
    out += fmt::format("output {}{}\n", same ? "" : quoted(output.name) + " = ", value_text(graph, output.value));
  }
  return out;
}

}  // namespace npusim
