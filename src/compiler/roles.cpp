// Recognising text models by their signatures.
#include "compiler/roles.h"

#include <algorithm>

#include "passes/states.h"

namespace npusim {
namespace {

int64_t length_of(const Graph& graph) {
  for (const ValueId id : graph.inputs) {
    const Value& input = value_of(graph, id);
    if (input.name.find("input_ids") != std::string::npos && input.type.shape.size() == 2 &&
        fits(Role::tokens, input.type, false, input.type.shape[1]))
      return input.type.shape[1];
  }
  return -1;
}

Role role_of(const Value& input, int64_t length) {
  static constexpr std::pair<std::string_view, Role> names[] = {{"input_ids", Role::tokens},
                                                                {"position_ids", Role::positions},
                                                                {"cache_position", Role::positions},
                                                                {"attention_mask", Role::mask}};
  for (const auto& [name, role] : names)
    if (input.name.find(name) != std::string::npos) return fits(role, input.type, false, length) ? role : Role::data;
  return Role::data;
}

}  // namespace

bool takes_tokens(const Graph& graph) { return length_of(graph) >= 0; }

void find_roles(MethodGraph& method) {
  const Graph& graph = method.graph;
  method.input_roles.assign(graph.inputs.size(), Role::data);
  method.output_roles.assign(graph.outputs.size(), Role::data);
  const int64_t length = length_of(graph);
  if (length < 0) return;
  const std::vector<int> updates = updates_of_inputs(graph);
  bool known = true;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (updates[i] >= 0) continue;
    const Role role = role_of(value_of(graph, graph.inputs[i]), length);
    const auto taken = [&] {
      return std::find(method.input_roles.begin(), method.input_roles.end(), role) != method.input_roles.end();
    };
    if (role == Role::positions || !taken()) method.input_roles[i] = role;
    known = known && method.input_roles[i] != Role::data;
  }
  for (size_t i = 0; known && i < graph.outputs.size(); ++i) {
    const GraphOutput& output = graph.outputs[i];
    const bool state = std::find(updates.begin(), updates.end(), static_cast<int>(i)) != updates.end();
    if (state || !fits(Role::logits, {value_of(graph, output.value).type.dtype, output.shape}, true, length)) continue;
    method.output_roles[i] = Role::logits;
    break;
  }
}

}  // namespace npusim
