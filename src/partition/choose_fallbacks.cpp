// Which nodes of the IR the fallback does, and why: what the user asks for, and what the target refuses.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "npusim/message.h"
#include "partition/partition.h"
#include "program/program.h"

namespace npusim {
namespace {

// The name of what a call in place does: "aten.relu.default" of "aten.relu_.default", "relu" of "relu_".
std::string without_in_place(std::string name) {
  const size_t begin = name.starts_with("aten.") ? 5 : 0, end = std::min(name.find('.', begin), name.size());
  if (end > begin + 1 && name[end - 1] == '_' && name[end - 2] != '_') name.erase(end - 1, 1);
  return name;
}

// "aten.relu.default" is called that, "aten.relu" and "relu".
bool is_called(std::string_view op, std::string_view name) {
  const auto is = [&](std::string_view of) {
    return of == name || (of.size() > name.size() && of.starts_with(name) && of[name.size()] == '.');
  };
  return is(op) || (op.starts_with("aten.") && is(op.substr(5)));
}

// An operator's name with as many of its parts as another one has: "relu" of "aten.relu.default" beside "rely".
std::string as_written(std::string op, const std::string& pattern) {
  const bool with_namespace = pattern.starts_with("aten.");
  if (!with_namespace && op.starts_with("aten.")) op.erase(0, 5);
  const auto parts = [](const std::string& name) { return std::count(name.begin(), name.end(), '.'); };
  while (parts(op) > parts(pattern)) op.erase(op.rfind('.'));
  return op;
}

std::vector<std::string> names_of(const std::vector<Origin>& origins) {
  std::vector<std::string> names;
  for (const Origin& origin : origins) names.push_back(origin.node);
  return names;
}

std::vector<std::string> names_of(const std::vector<MethodGraph>& methods) {
  std::vector<std::string> names;
  for (const MethodGraph& method : methods) names.push_back(method.name);
  return names;
}

void force(std::vector<MethodGraph>& methods, const std::string& name) {
  bool found = false;
  for (MethodGraph& method : methods)
    for (Origin& origin : method.graph.origins)
      if (is_called(origin.op, name) || is_called(origin.op, without_in_place(name))) {
        found = true;
        origin.reason = fmt::format("--force-cpu {}", name);
      }
  if (found) return;
  std::set<std::string> known;
  for (const MethodGraph& method : methods)
    for (const Origin& origin : method.graph.origins) known.insert(as_written(origin.op, name));
  fail(ErrorKind::usage, "--force-cpu {}: no node of the model is of this operator{}", name, did_you_mean(name, known));
}

MethodGraph& find_method(std::vector<MethodGraph>& methods, const std::string& name, const std::string& where) {
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const MethodGraph& method) { return method.name == name; });
  if (found == methods.end())
    fail(ErrorKind::bad_input, "{}: methods: no method is called {}: expected {}", where, json_quoted(name),
         fmt::join(names_of(methods), ", "));
  return *found;
}

void follow_plan(std::vector<MethodGraph>& methods, const nlohmann::json& plan, const std::string& where) {
  const auto object = [&](const nlohmann::json& value, const std::string& at) -> const nlohmann::json& {
    if (!value.is_object())
      fail(ErrorKind::bad_input, "{}: {}: expected an object, found {}", where, at, json_found(value));
    return value;
  };
  if (!plan.contains("methods")) fail(ErrorKind::bad_input, "{}: missing \"methods\"", where);
  refuse_unknown_keys(plan, {"methods"}, where);
  for (const auto& [name, method] : object(plan["methods"], "methods").items()) {
    const std::string at = "methods." + name;
    Graph& graph = find_method(methods, name, where).graph;
    std::map<std::string_view, Origin*> origins;
    for (Origin& origin : graph.origins) origins[origin.node] = &origin;
    if (!object(method, at).contains("cpu")) fail(ErrorKind::bad_input, "{}: {}: missing \"cpu\"", where, at);
    refuse_unknown_keys(method, {"cpu"}, fmt::format("{}: {}", where, at));
    for (const auto& [node, reason] : object(method["cpu"], at + ".cpu").items()) {
      const auto origin = origins.find(node);
      if (origin == origins.end())
        fail(ErrorKind::bad_input, "{}: {}.cpu: the model has no node {}{}", where, at, json_quoted(node),
             did_you_mean(node, names_of(graph.origins)));
      if (!reason.is_string() || reason.get_ref<const std::string&>().empty())
        fail(ErrorKind::bad_input, "{}: {}.cpu.{}: expected the reason, found {}", where, at, node,
             reason.is_string() ? "an empty one" : json_found(reason));
      if (const size_t bytes = reason.get_ref<const std::string&>().size(); bytes > most_text_bytes)
        fail(ErrorKind::bad_input, "{}: {}.cpu.{}: expected the reason, found one of {} bytes (at most {})", where, at,
             node, bytes, most_text_bytes);
      origin->second->reason = reason.get<std::string>();
    }
  }
}

template <typename Visit>
void each_refused(const Program& program, const PassContext& context, Visit&& visit) {
  const auto check_all = [&](const Sequence& sequence) {
    for (const Step& step : sequence.steps) {
      if (step.is_transfer()) continue;
      const std::string reason = context.refuse(program.kernels[static_cast<size_t>(step.kernel)], step.device);
      if (!reason.empty()) visit(step, reason);
    }
  };
  check_all(program.recipes);
  for (const Method& method : program.methods) check_all(method);
}

}  // namespace

void choose_fallbacks(std::vector<MethodGraph>& methods, const CompileOptions& options) {
  if (options.plan.given()) {
    const std::string where = options.plan.path.empty() ? "plan" : options.plan.path;
    if (!options.force_cpu.empty()) fail(ErrorKind::usage, "--force-cpu and --plan: expected one of them");
    if (!options.fallback) fail(ErrorKind::usage, "--no-fallback and --plan: expected one of them");
    follow_plan(methods,
                options.plan.json.empty() ? read_json_object(where) : parse_json_object(options.plan.json, where),
                where);
  }
  if (!options.fallback && !options.force_cpu.empty())
    fail(ErrorKind::usage, "--force-cpu and --no-fallback: expected one of them");
  for (const std::string& name : options.force_cpu) force(methods, name);
}

bool send_refused(const Program& program, const PassContext& context, std::vector<MethodGraph>& methods) {
  bool sent = false;
  each_refused(program, context, [&](const Step& step, const std::string& reason) {
    if (step.device != 0) return;
    for (const int32_t at : step.origins) {
      auto origin = static_cast<size_t>(at);
      auto method = methods.begin();
      for (; origin >= method->graph.origins.size(); ++method) origin -= method->graph.origins.size();
      std::string& known = method->graph.origins[origin].reason;
      sent = sent || known.empty();
      if (known.empty()) known = reason;
    }
  });
  return sent;
}

void raise_refused(const Program& program, const PassContext& context) {
  std::vector<Problem> problems;
  each_refused(program, context, [&](const Step& step, const std::string& reason) {
    problems.push_back({"node " + step_name(program, step), reason});
  });
  if (!problems.empty()) throw Error(ErrorKind::unsupported, std::move(problems));
}

std::vector<std::string> fallback_notes(const Program& program) {
  // A node may have vanished: a view that moves nothing, what nobody reads.
  std::vector<bool> runs(program.origins.size(), false);
  const auto check_all = [&](const Sequence& sequence) {
    for (const Step& step : sequence.steps)
      if (step.device == fallback_device && !step.is_transfer())
        for (const int32_t origin : step.origins) runs[static_cast<size_t>(origin)] = true;
  };
  check_all(program.recipes);
  for (const Method& method : program.methods) check_all(method);
  std::map<std::string, std::vector<std::string>> nodes;  // by reason
  for (size_t i = 0; i < runs.size(); ++i)
    if (const Origin& origin = program.origins[i]; runs[i] && !origin.reason.empty())
      nodes[origin.reason].push_back(origin.node);
  std::vector<std::string> notes;
  for (const auto& [reason, names] : nodes) {
    const std::span shown = std::span(names).first(std::min<size_t>(names.size(), 3));
    notes.push_back(fmt::format("{} {} on the CPU: {}{}: {}", names.size(),
                                names.size() == 1 ? "node runs" : "nodes run", fmt::join(shown, ", "),
                                names.size() > shown.size() ? ", …" : "", reason));
  }
  return notes;
}

}  // namespace npusim
