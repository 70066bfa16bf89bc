// The input that says which token is the last, and the row of the logits that it names.
#include "compiler/last_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/take_row.h"

namespace npusim {

std::optional<MethodGraph> last_row(const MethodGraph& prefill, std::string name, std::string& reason) {
  const auto find = [](const std::vector<Role>& roles, Role role) {
    return static_cast<size_t>(std::find(roles.begin(), roles.end(), role) - roles.begin());
  };
  const size_t tokens = find(prefill.input_roles, Role::tokens), logits = find(prefill.output_roles, Role::logits);
  if (tokens == prefill.input_roles.size() || logits == prefill.output_roles.size()) return std::nullopt;
  MethodGraph method = prefill;
  method.name = std::move(name);
  Graph& graph = method.graph;
  const int64_t length = value_of(graph, graph.inputs[tokens]).type.shape.back();
  Shape& shape = graph.outputs[logits].shape;  // [1, length, vocabulary]
  if (length < 2 || shape[1] != length) return std::nullopt;
  const ValueId index = add_value(graph, "last_token", {DType::i64, {1}});
  value_of(graph, index).source = ValueSource::input;
  // The last of the method's own inputs.
  const auto own = static_cast<ptrdiff_t>(graph.inputs.size() - method.fills.size());
  graph.inputs.insert(graph.inputs.begin() + own, index);
  method.input_roles.insert(method.input_roles.begin() + own, Role::last);
  if (!take_row(graph, logits, {shape[2], length}, index)) {
    reason = fmt::format("{} cannot be computed of one token alone", graph.outputs[logits].name);
    return std::nullopt;
  }
  shape[1] = 1;
  return method;
}

}  // namespace npusim
