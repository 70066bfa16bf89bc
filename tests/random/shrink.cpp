// Greedy: each change that keeps the failure is kept.
#include "random/shrink.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "random/isolate.h"
#include "random/values.h"

namespace npusim::test {
namespace {

bool is_given(const Value& value) { return value.source == ValueSource::input || value.source == ValueSource::weight; }

void clean(Graph& graph) {
  const auto readers = readers_of(graph);
  std::erase_if(graph.inputs, [&](ValueId v) { return readers[static_cast<size_t>(v)].empty(); });
  compact(graph, std::vector<bool>(graph.nodes.size(), false), false);
}

void rename(Graph& graph, ValueId id, const std::string& kind) {
  Value& value = value_of(graph, id);
  const std::string stem = value.name.substr(0, value.name.rfind('_'));
  std::string name = stem + "_" + kind;
  if (graph.names.contains(name)) name = stem + "s_" + kind;
  if (graph.names.contains(name)) return;
  for (GraphOutput& output : graph.outputs)
    if (output.name == value.name) output.name = name;
  graph.names.erase(value.name);
  graph.names.emplace(name, 0);
  value.name = name;
  if (value.source == ValueSource::weight) value.fqn = name;
}

// The graph without node `n`: what it gave comes from outside.
std::optional<Graph> without_node(const Graph& from, size_t n) {
  Graph graph = from;
  const Node node = graph.nodes[n];
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n));
  for (const ValueId id : node.outputs) {
    Value& value = value_of(graph, id);
    value.source = ValueSource::input;
    value.producer = -1;
    graph.inputs.push_back(id);
    rename(graph, id, is_float(value.type.dtype) ? "normal" : value.type.dtype == DType::boolean ? "mask" : "below2");
  }
  set_producers(graph);
  clean(graph);
  return graph;
}

// The results are the first operand of their type.
std::optional<Graph> past_node(const Graph& from, size_t n) {
  Graph graph = from;
  const Node node = graph.nodes[n];
  if (node.outputs.size() != 1) return {};
  for (const ValueId id : node.inputs) {
    if (id == no_value || value_of(graph, id).type != value_of(graph, node.outputs[0]).type) continue;
    std::vector<ValueId> to(graph.values.size());
    for (size_t v = 0; v < to.size(); ++v) to[v] = static_cast<ValueId>(v);
    to[static_cast<size_t>(node.outputs[0])] = id;
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n));
    replace_values(graph, to);
    set_producers(graph);
    clean(graph);
    return graph;
  }
  return {};
}

// Results' types as the operators say; false where one refuses.
bool infer_again(Graph& graph) {
  try {
    for (const Node& node : graph.nodes) {
      OpCall call = call_of(graph, node);
      call.outputs.clear();
      const std::vector<TensorType> types = node.op->record.infer(call);
      if (types.size() != node.outputs.size()) return false;
      for (size_t i = 0; i < types.size(); ++i) {
        if (node.in_place && types[i].shape != value_of(graph, node.inputs[0]).type.shape) return false;
        value_of(graph, node.outputs[i]).type.shape = types[i].shape;
      }
    }
  } catch (const Error&) {
    return false;
  }
  return check_graph(graph).empty();
}

// Every extent `from` of what is given, and the same number in lists of sizes, is `to`.
std::optional<Graph> resized(const Graph& before, int64_t from, int64_t to) {
  Graph graph = before;
  for (Value& value : graph.values) {
    if (value.source == ValueSource::constant && std::count(value.type.shape.begin(), value.type.shape.end(), from))
      return {};
    if (is_given(value)) std::replace(value.type.shape.begin(), value.type.shape.end(), from, to);
  }
  for (Node& node : graph.nodes)
    for (Attr& attr : node.attrs)
      if (auto* list = std::get_if<std::vector<int64_t>>(&attr)) std::replace(list->begin(), list->end(), from, to);
  const std::string below = "below" + std::to_string(from), distinct = "distinct" + std::to_string(from);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ValueKind kind = kind_of(graph.values[v].name);
    if (is_given(graph.values[v]) && kind.number == from && (kind.kind == "below" || kind.kind == "distinct"))
      rename(graph, static_cast<ValueId>(v), kind.kind + std::to_string(to));
  }
  if (!infer_again(graph)) return {};
  return graph;
}

std::set<int64_t> extents_of(const Graph& graph) {
  std::set<int64_t> extents;
  for (const Value& value : graph.values)
    if (is_given(value)) extents.insert(value.type.shape.begin(), value.type.shape.end());
  return extents;
}

class Shrinker {
 public:
  Shrinker(Case failing, const Outcome& outcome, int tries)
      : best_(std::move(failing)), wanted_(outcome), left_(tries) {}

  Case run() {
    Case plain = best_;
    plain.ways = {wanted_.way};
    try_case(plain);
    for (bool changed = true; changed && left_ > 0;) {
      changed = false;
      for (auto simplify : {&Shrinker::plainer_way, &Shrinker::fewer_outputs, &Shrinker::fewer_nodes,
                            &Shrinker::smaller_extents, &Shrinker::plainer_values})
        changed = (this->*simplify)() || changed;
    }
    return best_;
  }

 private:
  bool try_case(const Case& candidate) {
    if (left_-- <= 0 || candidate.graph.outputs.empty()) return false;
    if (!check_graph(candidate.graph).empty()) return false;
    const Outcome outcome = check_case(candidate);
    if (outcome.result != wanted_.result || message(outcome) != message(wanted_)) return false;
    best_ = candidate;
    return true;
  }
  bool try_graph(std::optional<Graph> graph) {
    if (!graph) return false;
    Case candidate = best_;
    candidate.graph = std::move(*graph);
    return try_case(candidate);
  }

  // What an error says, without the names and numbers of this program.
  static std::string message(const Outcome& outcome) {
    if (outcome.result != Result::error && outcome.result != Result::problem) return {};
    std::string text =
        outcome.what.substr(outcome.what.rfind(": ") == std::string::npos ? 0 : outcome.what.rfind(": "));
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
  }

  bool plainer_way() {
    bool changed = false;
    const auto attempt = [&](const std::function<void(Way&)>& change) {
      Case candidate = best_;
      change(candidate.ways[0]);
      if (to_string(candidate.ways[0]) != to_string(best_.ways[0])) changed |= try_case(candidate);
    };
    if (best_.ways.size() != 1) return false;
    attempt([](Way& way) { way.dtype = DType::f32; });
    attempt([](Way& way) { way.strict = false; });
    attempt([](Way& way) { way.threads = 1; });
    attempt([](Way& way) { way.away = 0; });
    attempt([](Way& way) { way.instructions = 0; });
    for (const std::string& name : std::set<std::string>(best_.ways[0].disabled))
      attempt([&](Way& way) { way.disabled.erase(name); });
    return changed;
  }

  bool fewer_outputs() {
    bool changed = false;
    for (size_t i = best_.graph.outputs.size(); i-- > 0 && left_ > 0;) {
      if (i >= best_.graph.outputs.size()) continue;
      Graph graph = best_.graph;
      graph.outputs.erase(graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      compact(graph, std::vector<bool>(graph.nodes.size(), false), true);
      clean(graph);
      changed |= try_graph(graph);
    }
    return changed;
  }

  bool fewer_nodes() {
    bool changed = false;
    for (size_t n = best_.graph.nodes.size(); n-- > 0 && left_ > 0;) {
      if (n >= best_.graph.nodes.size()) continue;
      changed |= try_graph(past_node(best_.graph, n)) || try_graph(without_node(best_.graph, n));
    }
    return changed;
  }

  bool smaller_extents() {
    bool changed = false;
    for (const int64_t extent : extents_of(best_.graph))
      for (const int64_t to : {int64_t{1}, int64_t{2}, int64_t{3}, extent / 2, extent - 1})
        if (left_ > 0 && to < extent && to > 0 && extents_of(best_.graph).contains(extent) &&
            try_graph(resized(best_.graph, extent, to))) {
          changed = true;
          break;
        }
    return changed;
  }

  bool plainer_values() {
    bool changed = false;
    for (size_t v = 0; v < best_.graph.values.size() && left_ > 0; ++v) {
      const Value& value = best_.graph.values[v];
      if (!is_given(value) || !is_float(value.type.dtype) || kind_of(value.name).kind == "whole" ||
          kind_of(value.name).kind == "positive")
        continue;
      for (const char* kind : {"whole", "normal"}) {
        if (kind_of(value.name).kind == kind) break;
        Graph graph = best_.graph;
        rename(graph, static_cast<ValueId>(v), kind);
        if (try_graph(graph)) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  Case best_;
  Outcome wanted_;
  int left_;
};

}  // namespace

Outcome check_case(const Case& one) {
  Outcome outcome;
  outcome.way = one.ways[0];
  const std::string ended = in_child(
      60,
      [&](const auto& send) {
        const Outcome found = check_graph_runs(one.graph, one.values, one.ways);
        nlohmann::json json{{"result", static_cast<int>(found.result)}, {"what", found.what}};
        send(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      },
      [&](const std::string& text) {
        const auto json = nlohmann::json::parse(text);
        outcome.result = static_cast<Result>(json["result"].get<int>());
        outcome.what = json["what"];
      });
  if (!ended.empty()) {
    outcome.result = Result::crashed;
    outcome.what = ended;
  }
  return outcome;
}

Case shrink(Case failing, const Outcome& outcome, int tries) {
  return Shrinker(std::move(failing), outcome, tries).run();
}

}  // namespace npusim::test
