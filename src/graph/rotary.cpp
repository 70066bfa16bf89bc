// Verification and expansion of the rotary higher-order node: the node itself says nothing about its body, so only the
// one signature known to be rotary is taken, of models whose config.json says that nothing is scaled.
#include "graph/rotary.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/rope_config.h"
#include "graph/attrs.h"

namespace npusim {
namespace {

struct Given {
  std::string_view arg;
  Attr value;
};

// Appends `op_name` over `inputs` with some attributes, the others at their defaults.
void append(Graph& graph, std::string name, std::string_view op_name, std::vector<ValueId> inputs, ValueId output,
            std::initializer_list<Given> given = {}) {
  Node node;
  node.name = std::move(name);
  node.op = find_op(op_name);
  if (!node.op) fail(ErrorKind::unsupported, "rotary embedding needs {}, which is not supported", op_name);
  for (const SchemaArg& arg : node.op->schema.args) {
    node.attrs.push_back(is_operand(arg) ? Attr{} : default_attr(arg));
    if (arg.kind == ArgKind::tensor_list) node.list_sizes.push_back(static_cast<int>(inputs.size()));
  }
  for (const Given& g : given) node.attrs[static_cast<size_t>(node.op->schema.find(g.arg))] = g.value;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  add_node(graph, std::move(node));
}

}  // namespace

std::string refuse_rotary(const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  std::string found;
  for (const TensorType& type : inputs) found += (found.empty() ? "" : ", ") + to_string(type);
  found += " ->";
  for (const TensorType& type : outputs) found += " " + to_string(type);
  const std::string reason = fmt::format(
      "is understood only as a rotary embedding, float32[D/2], int64[B, S] -> [B, S, D] [B, S, D]; found {}", found);
  if (inputs.size() != 2 || outputs.size() != 2) return reason;
  const bool positions_first = is_integer(inputs[0].dtype);  // exporters capture the two in either order
  const TensorType &inv_freq = inputs[positions_first ? 1 : 0], &positions = inputs[positions_first ? 0 : 1];
  if (inv_freq.dtype != DType::f32 || inv_freq.shape.size() != 1) return reason;
  if (!is_integer(positions.dtype) || positions.shape.size() != 2) return reason;
  for (const TensorType& type : outputs)
    if (!is_float(type.dtype) || type.shape != Shape{positions.shape[0], positions.shape[1], 2 * inv_freq.shape[0]})
      return reason;
  return {};
}

std::string refuse_rotary_body(const std::string& where, std::string& type) {
  namespace fs = std::filesystem;
  const std::string way_out = "export the model under torch.no_grad(), which keeps the body";
  std::error_code ignored;
  const fs::path config = fs::path(where).parent_path() / "config.json";
  const bool is_name = where.find('\0') == std::string::npos;  // where it is no file, anything
  if (!is_name || !fs::is_regular_file(where, ignored) || !fs::is_regular_file(config, ignored))
    return fmt::format(
        "is a rotary embedding whose body the file has lost, which may scale cos and sin (YaRN does): {}, "
        "or put the model's config.json beside the IR",
        way_out);
  type = rope_type(read_python_object(config.string()), config.string());
  if (is_unscaled_rope(type)) return {};
  return fmt::format(
      "is a rotary embedding whose body the file has lost, of type {} by {}, which may scale cos and sin: "
      "{}",
      json_quoted(type), config.string(), way_out);
}

void expand_rotary(Graph& graph, const std::string& name, ValueId inv_freq, ValueId positions,
                   const std::vector<ValueId>& outputs) {
  if (is_integer(value_of(graph, inv_freq).type.dtype)) std::swap(inv_freq, positions);
  const Shape rows = value_of(graph, positions).type.shape;  // [B, S]
  const int64_t half = value_of(graph, inv_freq).type.shape[0];
  auto make = [&](const char* part, Shape shape) {
    return add_value(graph, name + part, {DType::f32, std::move(shape)});
  };
  const ValueId real = make("_positions", rows);
  const ValueId column = make("_column", {rows[0], rows[1], 1});
  const ValueId angle = make("_angle", {rows[0], rows[1], half});
  const ValueId angles = make("_angles", {rows[0], rows[1], 2 * half});
  append(graph, name + "_positions", "aten.to.dtype", {positions}, real, {{"dtype", DType::f32}});
  append(graph, name + "_column", "aten.unsqueeze.default", {real}, column, {{"dim", int64_t{2}}});
  append(graph, name + "_angle", "aten.mul.Tensor", {column, inv_freq}, angle);
  append(graph, name + "_angles", "aten.cat.default", {angle, angle}, angles, {{"dim", int64_t{-1}}});
  constexpr std::string_view functions[] = {"aten.cos.default", "aten.sin.default"};
  for (size_t i = 0; i < 2; ++i) {
    const DType dtype = value_of(graph, outputs[i]).type.dtype;
    const std::string result = fmt::format("{}_{}", name, i);
    if (dtype == DType::f32) {
      append(graph, result, functions[i], {angles}, outputs[i]);
      continue;
    }
    const ValueId wide = make(i ? "_sin" : "_cos", {rows[0], rows[1], 2 * half});
    append(graph, result + "_wide", functions[i], {angles}, wide);
    append(graph, result, "aten.to.dtype", {wide}, outputs[i], {{"dtype", dtype}});
  }
}

}  // namespace npusim
