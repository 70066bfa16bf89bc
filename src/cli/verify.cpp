// npusim verify: compiles a model, runs it, and compares with golden outputs or with the reference.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/fail.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "npusim/compare.h"
#include "npusim/compiler.h"
#include "npusim/message.h"

namespace npusim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  SessionFlags session;
  std::string ir, golden;
  CompileFlags compile;
  InputFlags inputs;
  double min_pearson = 0.999;
  double max_rel_l2 = -1;  // by the output's precision
  double max_l_inf = -1;   // no limit
  bool no_argmax = false;
  bool json = false;
};

struct Row {
  std::string name;
  Comparison comparison;
  double max_rel_l2 = 0;
  std::vector<std::string> failed;  // what is out of tolerance, and by how much
};

// The golden tensor of an output: by its name, or by position as out0, out1, …, which may be cut short.
const TensorView* find_golden(const TensorSet& golden, const std::string& path, const TensorInfo& output,
                              size_t position) {
  if (const TensorView* named = find_tensor(golden, output.name)) return named;
  const TensorView* placed = find_tensor(golden, fmt::format("out{}", position));
  const TensorView* shape = placed ? find_tensor(golden, fmt::format("shape{}", position)) : nullptr;
  if (!shape) return placed;
  const int64_t rank = element_count(shape->type.shape);
  Shape expected;
  for (int64_t d = 0; d < rank; ++d) expected.push_back(load_int(shape->data, shape->type.dtype, d));
  if (expected != output.type.shape)
    fail(ErrorKind::bad_input, "output '{}': the model gives {}, shape{} in {} says {}", output.name,
         to_string(output.type.shape), position, path, to_string(expected));
  return placed;
}

std::vector<std::string> failed_bars(const Flags& flags, const Comparison& c, double max_rel_l2) {
  std::vector<std::string> failed;
  if (!(c.pearson_r >= flags.min_pearson))
    failed.push_back(fmt::format("r {:.7g} is below {}", c.pearson_r, flags.min_pearson));
  if (!(c.relative_l2 <= max_rel_l2))
    failed.push_back(fmt::format("rel_l2 {:.3g} is above {}", c.relative_l2, max_rel_l2));
  if (flags.max_l_inf >= 0 && !(c.l_inf <= flags.max_l_inf))
    failed.push_back(fmt::format("l_inf {:.3g} is above {}", c.l_inf, flags.max_l_inf));
  if (!flags.no_argmax && !c.argmax_equal) failed.push_back("argmax differs");
  return failed;
}

Row compare_output(const Flags& flags, const TensorInfo& output, const std::byte* found, const TensorView& expected,
                   std::vector<DType> dtypes, bool may_be_cut, const std::string& where) {
  const int64_t count = element_count(output.type.shape), given = element_count(expected.type.shape);
  const bool a_row = may_be_cut && given <= count && (given > 0 || count == 0) && expected.type.shape.size() == 1;
  if (!a_row && expected.type.shape != output.type.shape)
    fail(ErrorKind::bad_input, "output '{}': expected {}, found {} in {}", output.name, to_string(output.type.shape),
         to_string(expected.type.shape), where);
  Row row{output.name, {}, flags.max_rel_l2, {}};
  dtypes.push_back(expected.type.dtype);
  if (row.max_rel_l2 < 0) row.max_rel_l2 = relative_l2_bar(dtypes);
  row.comparison = compare(to_doubles({output.type, found}), to_doubles(expected),
                           output.type.shape.empty() ? 1 : output.type.shape.back());
  row.failed = failed_bars(flags, row.comparison, row.max_rel_l2);
  if (row.comparison.not_finite > 0)
    print_note(fmt::format("output '{}': {} of {} elements are NaN or infinite, as expected", output.name,
                           row.comparison.not_finite, row.comparison.elements));
  return row;
}

std::vector<Row> against_golden(const Flags& flags, const Program& program, Session& session,
                                const std::vector<TensorInfo>& outputs) {
  const std::shared_ptr<const TensorSet> golden = open_tensors(flags.golden);
  const std::vector<DType> dtypes = used_dtypes(program);
  std::vector<Row> rows;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (const TensorView* expected = find_golden(*golden, flags.golden, outputs[i], i))
      rows.push_back(
          compare_output(flags, outputs[i], session.output(0, i).data(), *expected, dtypes, true, flags.golden));
    else
      print_note(fmt::format("output '{}' has no golden tensor and is not compared", outputs[i].name));
  }
  if (rows.empty()) fail(ErrorKind::bad_input, "{}: no tensor is called like an output or out0, out1, …", flags.golden);
  return rows;
}

std::vector<Row> against_reference(const Flags& flags, const Program& program, Session& session,
                                   const Evaluated& reference, const std::vector<TensorInfo>& outputs) {
  const auto& [expected, rounded] = reference;
  std::vector<DType> dtypes = used_dtypes(program);
  dtypes.insert(dtypes.end(), rounded.begin(), rounded.end());
  std::vector<Row> rows;
  for (size_t i = 0; i < outputs.size(); ++i)
    rows.push_back(compare_output(flags, outputs[i], session.output(0, i).data(), view_of(expected[i]), dtypes, false,
                                  "the reference"));
  return rows;
}

std::string report(const std::vector<Row>& rows, bool ok, bool json) {
  Json list = Json::array();
  std::string text = fmt::format("{:<20} {:>9} {:>11} {:>11} {:>11} {:>11} {:>10} {:>10}  argmax\n", "output", "l0",
                                 "l1", "l2", "l_inf", "rel_l2", "cosine", "r");
  std::string failed;
  for (const Row& row : rows) {
    const Comparison& c = row.comparison;
    const std::string name = printable(row.name);
    list.push_back({{"name", row.name},
                    {"ok", row.failed.empty()},
                    {"failed", row.failed},
                    {"l0", c.l0},
                    {"l1", c.l1},
                    {"l2", c.l2},
                    {"l_inf", c.l_inf},
                    {"rel_l2", c.relative_l2},
                    {"max_rel_l2", row.max_rel_l2},
                    {"cosine", c.cosine},
                    {"pearson_r", c.pearson_r},
                    {"argmax_equal", c.argmax_equal}});
    text +=
        fmt::format("{:<20} {:>9} {:>11.4g} {:>11.4g} {:>11.4g} {:>11.4g} {:>10.7f} {:>10.7f}  {}\n", name, c.l0, c.l1,
                    c.l2, c.l_inf, c.relative_l2, c.cosine, c.pearson_r, c.argmax_equal ? "equal" : "differs");
    if (!row.failed.empty()) failed += fmt::format("FAILED output '{}': {}\n", name, fmt::join(row.failed, ", "));
  }
  if (json) return json_report(Json{{"ok", ok}, {"outputs", list}});
  return text + (ok ? "ok\n" : failed);
}

std::vector<HostTensor> inputs_for(const Flags& flags, const std::vector<TensorInfo>& inputs,
                                   const TensorSet* weights) {
  if (flags.inputs.given() || !flags.golden.empty()) return read_inputs(flags.inputs, inputs, weights);
  std::vector<HostTensor> tensors = inputs_or_random(flags.inputs, inputs, weights);
  if (!tensors.empty()) print_note("inputs are random: none were given");
  return tensors;
}

int run(const Flags& flags) {
  std::vector<Row> rows;
  std::vector<std::string> notes;
  {
    Progress progress;
    const MethodSource source = read_source("main", flags.ir);
    CompileOptions options = compile_options(flags.compile);
    options.progress = [&](const std::string& stage) { progress.stage(stage); };
    const CompileResult compiled = compile({source}, options);
    const std::shared_ptr<const Program> program = compiled.program;
    notes = compiled.notes;
    const std::shared_ptr<const TensorSet> weights = open_session_weights(flags.session);
    const std::vector<HostTensor> inputs = inputs_for(flags, method_inputs(*program, "main"), weights.get());
    progress.stage("load");
    Session session = open_session(program, flags.session, weights);
    for (std::string& note : overflow_notes(*program, weights.get()))
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
    write_inputs(session, 0, inputs);
    std::optional<Evaluated> reference;  // which may need more memory than there is, before the program runs
    if (flags.golden.empty()) {
      progress.stage("reference");
      reference = evaluate_ir(source, inputs, weights.get());
    }
    progress.stage("run");
    session.run(0);
    progress.stage("compare");
    const std::vector<TensorInfo> outputs = method_outputs(*program, "main");
    rows = reference ? against_reference(flags, *program, session, *reference, outputs)
                     : against_golden(flags, *program, session, outputs);
  }
  for (const std::string& note : notes) print_note(note);
  const bool ok = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.failed.empty(); });
  print_report(report(rows, ok, flags.json));
  return ok ? 0 : 1;
}

}  // namespace

Action add_verify(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_ir_flag(verb, flags->ir);
  add_weights_flags(verb, flags->session.weights, flags->session.read_weights);
  add_input_flags(verb, flags->inputs);
  add_file(verb, "--golden", flags->golden, "G.safetensors",
           "expected outputs; without it the reference evaluates the IR", false);
  add_compile_flags(verb, flags->compile);
  add_name(verb, "--device", flags->session.device, "D", "where to run; default: the target");
  add_threads_flag(verb, flags->session.threads);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  add_number(verb, "--min-pearson", flags->min_pearson, -1, 1, "R", "tolerance: smallest r")->default_str("0.999");
  add_number(verb, "--max-rel-l2", flags->max_rel_l2, 0, infinity, "X",
             "tolerance: largest norm of the difference, of the expected; default: 0.001, in float16 0.02, in bfloat16 "
             "0.04");
  add_number(verb, "--max-l-inf", flags->max_l_inf, 0, infinity, "X", "tolerance: largest difference; default: none");
  verb.add_flag("--no-argmax", flags->no_argmax, "tolerance: rows may differ in their largest element");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
