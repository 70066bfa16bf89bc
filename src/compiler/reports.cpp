// Reports on operators and IR files.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "codegen/target.h"
#include "graph/document.h"
#include "graph/import.h"
#include "npusim/compiler.h"
#include "npusim/message.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace npusim {
namespace {

using Json = nlohmann::ordered_json;

// Whether an op's result replaces its first operand: all elementwise ones, and those that write values into it.
bool can_be_in_place(const Op& op) {
  if (op.schema.args.empty() || op.schema.args[0].kind != ArgKind::tensor || op.schema.results != 1) return false;
  if (op.record.family == OpFamily::formula) return true;
  return op.record.family == OpFamily::index &&
         std::any_of(op.schema.args.begin(), op.schema.args.end(), [](const SchemaArg& arg) {
           return arg.name == "source" || arg.name == "src" || arg.name == "value" || arg.name == "values";
         });
}

// "aten.relu.default" -> "aten.relu_.default"
std::vector<std::string> in_place_forms(const Op& op) {
  const std::string& name = op.name();
  const size_t dot = name.rfind('.');
  if (!can_be_in_place(op) || dot == std::string::npos || dot == 0) return {};
  std::string form = name.substr(0, dot) + "_" + name.substr(dot);
  if (name.starts_with("aten.__")) form = "aten.__i" + name.substr(7);
  if (find_op(form) != &op || !is_in_place(form)) return {};
  return {form};
}

Json tensor_json(const IrTensor& tensor) {
  return {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.type.shape}};
}

struct IrReport {
  Json json;
  std::vector<std::string> problems;  // why it cannot be compiled
};

// The passes that refuse, as compile() runs them for its default target; throws what it would.
void check_graph_compiles(Graph graph) {
  PassContext context;
  context.target = find_target(CompileOptions{}.target)->config();
  for (const Pass& pass : pipeline()) {
    pass.run(graph, context);
    if (pass.run == check_constraints) return;
  }
}

// Throws bad_input when the file is malformed; what is only unsupported is reported.
IrReport read_ir(const MethodSource& source) {
  const std::string text = source.json.empty() ? read_file(source.path) : source.json;
  IrReport report;
  try {
    const auto find_plugin = [](std::string& reason) {
      auto plugin = find_aten_plugin(reason);
      reason.clear();  // the report is of the file: where a plugin was looked for is none of it
      return plugin;
    };
    check_graph_compiles(import_ir(text, source.path, {.max_problems = 1000, .find_plugin = find_plugin}));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    for (const Problem& problem : error.problems()) {
      std::string line = to_string(problem);
      if (line.starts_with(source.path + ": ")) line.erase(0, source.path.size() + 2);
      report.problems.push_back(std::move(line));
    }
  }
  Problems ignored;  // import_ir has told them
  const IrDocument document = read_document(text, ignored);
  std::map<std::string, int64_t> ops, dtypes;
  for (const IrNode& node : document.nodes) {
    ++ops[std::string(node.op_type)];
    for (const IrTensor& tensor : node.outputs) ++dtypes[std::string(tensor.dtype)];
  }
  uint64_t weights_bytes = 0;
  for (const IrTensor& weight : document.weights) weights_bytes += byte_size(weight.type);
  report.json = {{"model", document.model_name},
                 {"nodes", document.nodes.size()},
                 {"inputs", Json::array()},
                 {"outputs", Json::array()},
                 {"weights", document.weights.size()},
                 {"weights_bytes", weights_bytes},
                 {"dtypes", dtypes},
                 {"ops", ops},
                 {"supported", report.problems.empty()},
                 {"unsupported", report.problems}};
  for (const IrTensor& tensor : document.inputs) report.json["inputs"].push_back(tensor_json(tensor));
  for (const IrTensor& tensor : document.outputs) report.json["outputs"].push_back(tensor_json(tensor));
  return report;
}

std::string tensors_text(std::string_view title, const Json& tensors) {
  std::string text;
  for (const Json& t : tensors)
    text += fmt::format("{:<10} {:<24} {}{}\n", t == tensors[0] ? title : "", printable(t["name"].get<std::string>()),
                        t["dtype"].get<std::string>(), to_string(t["shape"].get<Shape>()));
  return text;
}

std::string ir_text(const IrReport& report) {
  const Json& j = report.json;
  std::string text = fmt::format("model      {}\nnodes      {}\n", printable(j["model"].get<std::string>()),
                                 j["nodes"].get<int64_t>());
  text += tensors_text("inputs", j["inputs"]) + tensors_text("outputs", j["outputs"]);
  text += fmt::format("weights    {} tensors, {:.2f} MB\n", j["weights"].get<int64_t>(),
                      j["weights_bytes"].get<double>() / 1e6);
  text += "dtypes    ";
  for (const auto& [dtype, count] : j["dtypes"].items()) text += fmt::format(" {} {}", dtype, count.get<int64_t>());
  text += "\nops\n";
  std::vector<std::pair<std::string, int64_t>> ops;
  for (const auto& [op, count] : j["ops"].items()) ops.emplace_back(op, count.get<int64_t>());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, count] : ops) text += fmt::format("  {:>6}  {}\n", count, op);
  text += report.problems.empty() ? "all of it is supported\n" : "not supported\n";
  for (const std::string& problem : report.problems) text += "  " + problem + "\n";
  return text;
}

}  // namespace

std::string describe_ops(const std::string& target, bool json) {
  const std::string name = open_target(target)->config().name;
  Json list = Json::array();
  std::string text;
  for (const auto& [op_name, op] : op_table()) {
    const std::vector<std::string> in_place = in_place_forms(op);
    list.push_back({{"name", op_name},
                    {"family", family_name(op.record.family)},
                    {"schema", op.record.schema},
                    {"in_place", in_place}});
    text += fmt::format("{:<44} {:<10} {}{}\n", op_name, family_name(op.record.family), op.record.schema,
                        in_place.empty() ? "" : "  also " + in_place[0]);
  }
  return json ? json_text(Json{{"target", name}, {"ops", list}}, 2) + "\n" : text;
}

void check_ir_text(const MethodSource& source) {
  if (const auto ir = parse_ir(source.json.empty() ? read_file(source.path) : source.json, source.path);
      !ir.is_object())
    fail(ErrorKind::bad_input, "{}: expected a JSON object with nodes, found {}", source.path, ir.type_name());
}

void check_json_text(const JsonSource& source) {
  source.json.empty() ? read_json_object(source.path) : parse_json_object(source.json, source.path);
}

std::string describe_ir(const MethodSource& source, bool json) {
  const IrReport report = read_ir(source);
  return json ? json_text(report.json, 2) + "\n" : ir_text(report);
}

}  // namespace npusim
