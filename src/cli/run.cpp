// npusim run: runs a method on given inputs, writes its outputs.
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/cli.h"
#include "cli/fail.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "npusim/message.h"

namespace npusim::cli {
namespace {

struct Flags {
  SessionFlags session;
  InputFlags inputs;
  std::string method, output;
  int repeat = 1;
  bool json = false;
};

// A state is written by the run: every repetition starts from the given one.
std::vector<double> run_repeatedly(Session& session, size_t method, const std::vector<HostTensor>& inputs, int repeat) {
  std::vector<double> ms;
  for (int i = 0; i < repeat; ++i) {
    write_inputs(session, method, inputs);
    const Stopwatch watch;
    session.run(method);
    ms.push_back(watch.ms());
  }
  return ms;
}

std::vector<NamedTensor> outputs_of(Session& session, size_t method, const std::vector<TensorInfo>& infos) {
  std::vector<NamedTensor> tensors;
  std::set<std::string> names;  // one output may stand in the IR several times
  for (size_t i = 0; i < infos.size(); ++i)
    if (names.insert(infos[i].name).second)
      tensors.push_back({infos[i].name, {infos[i].type, session.output(method, i).data()}});
  return tensors;
}

void write_outputs(const std::string& path, const std::vector<NamedTensor>& tensors) {
  if (!path.ends_with(".npy")) return write_safetensors(path, tensors);
  if (tensors.size() != 1)
    fail(ErrorKind::usage, "-o {}: an .npy file holds one tensor, there are {}: use .safetensors", path,
         tensors.size());
  write_npy(path, tensors[0].tensor);
}

// "float32[1, 10]  min -3.1  mean 0.02  max 2.5"
std::string summary(const TensorView& tensor) {
  const int64_t count = element_count(tensor.type.shape);
  if (count == 0) return to_string(tensor.type) + "  empty";
  double low = load_double(tensor.data, tensor.type.dtype, 0), high = low, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = load_double(tensor.data, tensor.type.dtype, i);
    low = x < low ? x : low;
    high = x > high ? x : high;
    sum += x;
  }
  return fmt::format("{}  min {:.6g}  mean {:.6g}  max {:.6g}", to_string(tensor.type), low,
                     sum / static_cast<double>(count), high);
}

std::string report(const Flags& flags, const std::string& method, const std::vector<NamedTensor>& outputs,
                   const Timing& t) {
  nlohmann::ordered_json json = {{"method", method},       {"repeat", flags.repeat},
                                 {"min_ms", t.min_ms},     {"median_ms", t.median_ms},
                                 {"p10_ms", t.p10_ms},     {"p90_ms", t.p90_ms},
                                 {"output", flags.output}, {"outputs", nlohmann::ordered_json::array()}};
  std::string text = fmt::format("{}: {:.3f} ms", method, t.median_ms);
  if (flags.repeat > 1)
    text +=
        fmt::format(" (median of {}; min {:.3f}, p10 {:.3f}, p90 {:.3f})", flags.repeat, t.min_ms, t.p10_ms, t.p90_ms);
  text += '\n';
  for (const NamedTensor& output : outputs) {
    const TensorType& type = output.tensor.type;
    json["outputs"].push_back({{"name", output.name}, {"dtype", dtype_name(type.dtype)}, {"shape", type.shape}});
    if (!flags.json) text += fmt::format("  {:<20} {}\n", printable(output.name), summary(output.tensor));
  }
  return flags.json ? json_report(json) : text;
}

int run(const Flags& flags) {
  if (flags.output == "-" && flags.json) fail(ErrorKind::usage, "-o - leaves no standard output for --json");
  const std::shared_ptr<const Program> program = load_session_program(flags.session);
  const std::string method = choose_method(*program, flags.method);
  const std::shared_ptr<const TensorSet> weights = open_session_weights(flags.session);
  const std::vector<HostTensor> inputs = read_inputs(flags.inputs, method_inputs(*program, method), weights.get());
  Session session = load_session(program, flags.session, weights);
  const size_t position = session.method(method);
  std::vector<double> ms;
  {
    Progress progress;
    progress.stage("run");
    ms = run_repeatedly(session, position, inputs, flags.repeat);
  }
  const std::vector<NamedTensor> outputs = outputs_of(session, position, method_outputs(*program, method));
  if (!flags.output.empty()) write_outputs(flags.output, outputs);
  if (flags.output != "-") print_report(report(flags, method, outputs, summarize(ms)));
  return 0;
}

}  // namespace

Action add_run(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_session_flags(verb, flags->session);
  add_method_flag(verb, flags->method);
  add_input_flags(verb, flags->inputs);
  add_output(verb, "-o,--output", flags->output, "OUT.safetensors",
             "the outputs under their names; - is standard output");
  add_integer(verb, "--repeat", flags->repeat, 1, 1'000'000'000, "N", "how often to run")->default_str("1");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
