// npusim verify: compiles a model, runs it, and compares with golden outputs or with the reference.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/compare.h"
#include "cli/compile_flags.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "npusim/compiler.h"

namespace npusim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  SessionFlags session;
  std::string ir, golden;
  CompileFlags compile;
  InputFlags inputs;
  double min_pearson = 0.999;
  double max_l_inf = -1;  // no limit
  bool no_argmax = false;
  bool json = false;
};

struct Row {
  std::string name;
  Comparison comparison;
  bool ok = false;
};

// The golden tensor of an output: by its name, or by position as out0, out1, …, which may be cut short.
const TensorView* find_golden(const WeightFiles& golden, const TensorInfo& output, size_t position) {
  if (const TensorView* named = find_weight(golden, output.name)) return named;
  const TensorView* placed = find_weight(golden, fmt::format("out{}", position));
  const TensorView* shape = placed ? find_weight(golden, fmt::format("shape{}", position)) : nullptr;
  if (!shape) return placed;
  const int64_t rank = element_count(shape->type.shape);
  Shape expected;
  for (int64_t d = 0; d < rank; ++d) expected.push_back(load_int(shape->data, shape->type.dtype, d));
  if (expected != output.type.shape)
    fail(ErrorKind::bad_input, "output '{}': the model gives {}, shape{} in {} says {}", output.name,
         to_string(output.type.shape), position, golden.path, to_string(expected));
  return placed;
}

Row compare_output(const Flags& flags, const TensorInfo& output, const std::byte* found, const TensorView& expected,
                   bool may_be_cut, const std::string& where) {
  const int64_t count = element_count(output.type.shape), given = element_count(expected.type.shape);
  if (given > count || (given < count && (!may_be_cut || expected.type.shape.size() != 1)))
    fail(ErrorKind::bad_input, "output '{}': expected {}, found {} in {}", output.name, to_string(output.type.shape),
         to_string(expected.type.shape), where);
  const std::vector<double> mine = to_doubles({output.type, found});
  Row row{output.name, {}, false};
  row.comparison = compare(mine, to_doubles(expected), output.type.shape.empty() ? 1 : output.type.shape.back());
  const Comparison& c = row.comparison;
  row.ok = c.pearson_r >= flags.min_pearson && (flags.no_argmax || c.argmax_equal) &&
           (flags.max_l_inf < 0 || c.l_inf <= flags.max_l_inf);
  return row;
}

std::vector<Row> against_golden(const Flags& flags, Executor& executor, const std::vector<TensorInfo>& outputs) {
  const WeightFiles golden = open_weights(flags.golden);
  std::vector<Row> rows;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (const TensorView* expected = find_golden(golden, outputs[i], i))
      rows.push_back(compare_output(flags, outputs[i], executor.output(0, i).data(), *expected, true, flags.golden));
    else
      print_note(fmt::format("output '{}' has no golden tensor and is not compared", outputs[i].name));
  }
  if (rows.empty()) fail(ErrorKind::bad_input, "{}: no tensor is called like an output or out0, out1, …", flags.golden);
  return rows;
}

std::vector<Row> against_reference(const Flags& flags, const Session& session, const MethodSource& source,
                                   const std::vector<HostTensor>& inputs, const std::vector<TensorInfo>& outputs) {
  const std::vector<HostTensor> expected = evaluate_ir(source, inputs, session.weights ? &*session.weights : nullptr);
  std::vector<Row> rows;
  for (size_t i = 0; i < outputs.size(); ++i)
    rows.push_back(compare_output(flags, outputs[i], session.executor->output(0, i).data(), view_of(expected[i]), false,
                                  "the reference"));
  return rows;
}

std::string report(const std::vector<Row>& rows, bool ok, bool json) {
  Json list = Json::array();
  std::string text = fmt::format("{:<20} {:>9} {:>11} {:>11} {:>11} {:>10} {:>10}  argmax\n", "output", "l0", "l1",
                                 "l2", "l_inf", "cosine", "r");
  for (const Row& row : rows) {
    const Comparison& c = row.comparison;
    list.push_back({{"name", row.name},
                    {"l0", c.l0},
                    {"l1", c.l1},
                    {"l2", c.l2},
                    {"l_inf", c.l_inf},
                    {"cosine", c.cosine},
                    {"pearson_r", c.pearson_r},
                    {"argmax_equal", c.argmax_equal}});
    text += fmt::format("{:<20} {:>9} {:>11.4g} {:>11.4g} {:>11.4g} {:>10.7f} {:>10.7f}  {}{}\n", row.name, c.l0, c.l1,
                        c.l2, c.l_inf, c.cosine, c.pearson_r, c.argmax_equal ? "equal" : "differs",
                        row.ok ? "" : "  FAILED");
  }
  if (json) return json_text(Json{{"ok", ok}, {"outputs", list}}, 2) + "\n";
  return text + (ok ? "ok\n" : "not within tolerance\n");
}

std::vector<HostTensor> inputs_for(const Flags& flags, const std::vector<TensorInfo>& inputs) {
  if (flags.inputs.given() || !flags.golden.empty()) return read_inputs(flags.inputs, inputs);
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.push_back(random_tensor(inputs[i].type, i));
  if (!tensors.empty()) print_note("inputs are random: none were given");
  return tensors;
}

int run(const Flags& flags) {
  std::vector<Row> rows;
  {
    Progress progress;
    const MethodSource source = read_source("main", flags.ir);
    CompileOptions options = compile_options(flags.compile);
    options.progress = [&](const std::string& stage) { progress.stage(stage); };
    const std::shared_ptr<const Program> program = compile({source}, options).program;
    const std::vector<HostTensor> inputs = inputs_for(flags, method_inputs(*program, "main"));
    progress.stage("load");
    const Session session = open_session(program, flags.session);
    write_inputs(*session.executor, 0, inputs);
    progress.stage("run");
    session.executor->run(0);
    progress.stage("compare");
    const std::vector<TensorInfo> outputs = method_outputs(*program, "main");
    rows = flags.golden.empty() ? against_reference(flags, session, source, inputs, outputs)
                                : against_golden(flags, *session.executor, outputs);
  }
  const bool ok = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.ok; });
  print_report(report(rows, ok, flags.json));
  return ok ? 0 : 1;
}

}  // namespace

Action add_verify(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  verb.add_option("ir", flags->ir, "the IR; - is standard input")->required()->type_name("IR.json");
  verb.add_option("--weights", flags->session.weights, "weights: .safetensors, or an index of shards")
      ->type_name("W.safetensors");
  add_input_flags(verb, flags->inputs);
  verb.add_option("--golden", flags->golden, "expected outputs; without it the reference evaluates the IR")
      ->type_name("G.safetensors");
  add_compile_flags(verb, flags->compile);
  verb.add_option("--device", flags->session.device, "where to run; default: the target")->type_name("D");
  add_threads_flag(verb, flags->session.threads);
  verb.add_option("--min-pearson", flags->min_pearson, "tolerance: smallest r")->type_name("R")->capture_default_str();
  verb.add_option("--max-l-inf", flags->max_l_inf, "tolerance: largest difference; default: none")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  verb.add_flag("--no-argmax", flags->no_argmax, "tolerance: rows may differ in their largest element");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
