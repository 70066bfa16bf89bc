// A schema and bound arguments as a call.
#include "graph/call.h"

#include <algorithm>

#include "base/error.h"

namespace npusim {
namespace {

// The plugin's own value of an argument; tensors are counted by whoever has them.
CallArgument argument_of(const Attr& attr) {
  struct Visit {
    CallArgument operator()(std::monostate) const { return {}; }
    CallArgument operator()(bool b) const { return {.kind = CallKind::boolean, .integers = {b}}; }
    CallArgument operator()(int64_t i) const { return {.kind = CallKind::integer, .integers = {i}}; }
    CallArgument operator()(double d) const { return {.kind = CallKind::real, .reals = {d}}; }
    CallArgument operator()(DType d) const { return {.kind = CallKind::dtype, .text = std::string(dtype_name(d))}; }
    CallArgument operator()(const std::string& s) const { return {.kind = CallKind::text, .text = s}; }
    CallArgument operator()(const std::vector<int64_t>& v) const { return {.kind = CallKind::integers, .integers = v}; }
    CallArgument operator()(const std::vector<double>& v) const { return {.kind = CallKind::reals, .reals = v}; }
    CallArgument operator()(const std::vector<bool>& v) const {
      return {.kind = CallKind::booleans, .integers = {v.begin(), v.end()}};
    }
  };
  return std::visit(Visit{}, attr);
}

// Arguments of the kernel: each value that is read, once, then those that are written.
struct CallBuilder {
  const Graph& graph;
  Node node;
  Kernel kernel;
  Call call;

  CallTensor tensor(ValueId v, bool written) {
    std::vector<ValueId>& values = written ? node.outputs : node.inputs;
    const auto known = std::find(values.begin(), values.end(), v);
    const size_t before = written ? node.inputs.size() : 0;
    const TensorType& type = value_of(graph, v).type;
    if (known != values.end() && !written) return {static_cast<int>(known - values.begin()), type.shape};
    values.push_back(v);
    kernel.args.push_back({type.dtype, element_count(type.shape), written, -1});
    return {static_cast<int>(before + values.size()) - 1, type.shape};
  }

  // The position of an operand; -1 for None.
  int32_t operand(ValueId v) {
    if (v == no_value) return -1;
    call.operands.push_back(tensor(v, false));
    return static_cast<int32_t>(call.operands.size()) - 1;
  }
};

}  // namespace

std::shared_ptr<const Schema> plugin_schema(const AtenPlugin& plugin, const std::string& op, std::string& reason) {
  const std::string text = schema_of(plugin, op, reason);
  if (text.empty()) {
    reason = fmt::format("{}: {}", name_of(plugin), reason);
    return nullptr;
  }
  auto schema = std::make_shared<Schema>(parse_schema(text));
  schema->name = op;
  for (const SchemaArg& arg : schema->args)
    if (arg.aliased) {
      reason = fmt::format("{} could run it, but argument '{}' is {}", name_of(plugin), arg.name,
                           arg.mutated ? "written" : "returned");
      return nullptr;
    }
  return schema;
}

namespace {

// Of a call: those that its output_mask leaves out, as that of a backward pass may, are none.
int64_t result_count(const Schema& schema, const Binding& binding) {
  int64_t count = schema.results;
  for (size_t i = 0; i < schema.args.size(); ++i)
    if (const auto* mask = std::get_if<std::vector<bool>>(&binding.attrs[i]);
        mask && schema.args[i].name == "output_mask" && static_cast<int64_t>(mask->size()) == count)
      count = std::count(mask->begin(), mask->end(), true);
  return count;
}

}  // namespace

Node call_node(const Graph& graph, const Schema& schema, const Binding& binding, const std::vector<ValueId>& outputs) {
  const int64_t results = result_count(schema, binding);
  if (outputs.empty() || (results >= 0 && static_cast<size_t>(results) != outputs.size()))
    fail(ErrorKind::unsupported, "declares {} results, and a call has them all: {}", outputs.size(),
         results < 0 ? "at least one" : std::to_string(results));
  CallBuilder b{graph, {}, {}, {}};
  b.kernel.name = b.call.op = schema.name;
  size_t at = 0, list = 0;
  for (size_t i = 0; i < schema.args.size(); ++i) {
    const ArgKind kind = schema.args[i].kind;
    CallArgument argument = argument_of(binding.attrs[i]);
    if (kind == ArgKind::tensor_list) {
      argument.kind = CallKind::tensors;
      for (int k = 0; k < binding.list_sizes[list]; ++k) argument.tensors.push_back(b.operand(binding.inputs[at++]));
      ++list;
    } else if (kind == ArgKind::tensor) {
      const ValueId v = binding.inputs[at++];
      if (v != no_value) argument = {.kind = CallKind::tensor, .tensors = {b.operand(v)}};
    }
    b.call.arguments.push_back(std::move(argument));
  }
  for (const ValueId v : outputs) b.call.results.push_back(b.tensor(v, true));
  b.kernel.call = std::make_shared<const Call>(std::move(b.call));
  b.node.kernel = std::make_shared<const Kernel>(std::move(b.kernel));
  return std::move(b.node);
}

}  // namespace npusim
