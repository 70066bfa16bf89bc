// Weights that are states of another method.
#include "compiler/share_states.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace npusim {
namespace {

struct State {
  const MethodGraph* method;
  TensorType type;
};

std::map<std::string, State, std::less<>> states_by_name(const std::vector<MethodGraph>& methods) {
  std::map<std::string, State, std::less<>> states;
  for (const MethodGraph& method : methods)
    for (const GraphOutput& output : method.graph.outputs)
      if (output.next_of != no_value) {
        const Value& value = value_of(method.graph, output.next_of);
        states.try_emplace(value.name, State{&method, value.type});
      }
  return states;
}

// Whatever writes into one of two that are one memory writes into both. A program has memory of its own for each.
void refuse_aliases(const std::vector<MethodGraph>& methods) {
  const auto changes = [](const MethodGraph& method, const std::string& name) {
    return std::any_of(method.graph.outputs.begin(), method.graph.outputs.end(), [&](const GraphOutput& output) {
      return output.next_of != no_value && value_of(method.graph, output.next_of).name == name;
    });
  };
  for (const MethodGraph& method : methods)
    for (const auto& alias : method.graph.aliases)
      for (const MethodGraph& other : methods) {
        const auto& own = other.graph.aliases;
        if (&other == &method || std::find(own.begin(), own.end(), alias) != own.end()) continue;
        for (const std::string& name : {alias.first, alias.second})
          if (changes(other, name))
            fail(ErrorKind::bad_input,
                 "method '{}' gives '{}' the memory of '{}', and method '{}' changes '{}': assign a clone() of it",
                 method.name, alias.first, alias.second, other.name, name);
      }
}

}  // namespace

void keep_written_weights(Graph& graph) {
  std::vector<std::pair<ValueId, std::string>> names;
  for (const GraphOutput& output : graph.outputs) {
    if (output.next_of == no_value || value_of(graph, output.next_of).source == ValueSource::input) continue;
    const Value weight = value_of(graph, output.next_of);
    if (weight.source == ValueSource::constant)
      fail(ErrorKind::unsupported,
           "constant '{}': nodes write into it in place, and every run begins with it: make it a weight", weight.fqn);
    Value state;
    state.name = weight.name, state.type = weight.type, state.source = ValueSource::input;
    value_of(graph, output.next_of) = std::move(state);
    names.emplace_back(output.next_of, weight.fqn);
    graph.inputs.push_back(output.next_of);
  }
  rename_values(graph, names);
}

void share_states(std::vector<MethodGraph>& methods) {
  for (MethodGraph& method : methods) keep_written_weights(method.graph);
  const auto states = states_by_name(methods);
  if (states.empty()) return;
  refuse_aliases(methods);
  for (MethodGraph& method : methods) {
    Graph& graph = method.graph;
    std::vector<ValueId> becomes(graph.values.size());
    std::iota(becomes.begin(), becomes.end(), 0);
    const size_t inputs = graph.inputs.size();
    for (size_t v = 0; v < becomes.size(); ++v) {
      const Value weight = graph.values[v];
      const auto state = weight.source == ValueSource::weight ? states.find(weight.fqn) : states.end();
      if (state == states.end()) continue;
      if (state->second.type != weight.type)
        fail(ErrorKind::bad_input, "method '{}': weight '{}' is {}, and {} as a state of method '{}'", method.name,
             weight.fqn, to_string(weight.type), to_string(state->second.type), state->second.method->name);
      becomes[v] = add_value(graph, weight.fqn, weight.type);
      value_of(graph, becomes[v]).source = ValueSource::input;
      value_of(graph, becomes[v]).state = weight.fqn;
      graph.inputs.push_back(becomes[v]);
    }
    if (graph.inputs.size() == inputs) continue;
    replace_values(graph, becomes);
    compact(graph, {}, false);
  }
}

}  // namespace npusim
