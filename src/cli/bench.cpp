// npusim bench: the time of one method against what the machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/measure.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "npusim/message.h"

namespace npusim::cli {
namespace {

struct Flags {
  SessionFlags session;
  InputFlags inputs;
  std::string method;
  double seconds = 2;
  int64_t steps = 0;
  bool why = false, on_device = false, json = false;
};

std::string of_possible(double rate, double possible, int digits, const char* what) {
  if (possible <= 0) return "";
  return fmt::format(", {:.0f} % of the {:.{}f} {}", 100 * rate / possible, possible, digits, what);
}

std::string report(const std::string& method, const Session& session, const std::vector<double>& ms,
                   const std::vector<StepTime>& steps, const Flags& flags) {
  const Work work = method_work(session.program(), method);
  const std::string device = session.device(0).description;
  const int threads = session.threads();
  const Timing t = summarize(ms);
  const double read = static_cast<double>(work.read_bytes) / t.median_ms / 1e6;
  const double gflop = static_cast<double>(work.flops) / t.median_ms / 1e6;
  const DeviceLimits limits = limits_of(session, 0);
  const uint64_t moved = work.read_bytes + work.written_bytes;
  if (flags.json) {
    auto slowest = nlohmann::ordered_json::array();
    for (const StepTime& s : steps) {
      auto declined = nlohmann::ordered_json::array();
      for (const auto& [implementation, reason] : s.info.declined)
        declined.push_back({{"implementation", implementation}, {"reason", reason}});
      slowest.push_back({{"node", s.node}, {"how", s.info.how}, {"min_ms", s.min_ms}, {"declined", declined}});
    }
    return json_report(nlohmann::ordered_json{{"method", method},
                                              {"device", device},
                                              {"on_device", flags.on_device},
                                              {"runs", ms.size()},
                                              {"min_ms", t.min_ms},
                                              {"median_ms", t.median_ms},
                                              {"p10_ms", t.p10_ms},
                                              {"p90_ms", t.p90_ms},
                                              {"bytes_moved", moved},
                                              {"flops", work.flops},
                                              {"read_gb_s", read},
                                              {"gflop_s", gflop},
                                              {"probe_read_gb_s", limits.read_gb_s},
                                              {"probe_gflop_s", limits.gflop_s},
                                              {"threads", threads},
                                              {"slowest_steps", slowest}});
  }
  std::string text = fmt::format(
      "{}: median {:.3f} ms (min {:.3f}, p10 {:.3f}, p90 {:.3f}, {} runs, {} threads)\n"
      "  on {}\n"
      "  moves {:.2f} MB; reads {:.2f} GB/s{}\n"
      "  {:.3f} GFLOP in contractions; {:.1f} GFLOP/s{}\n",
      method, t.median_ms, t.min_ms, t.p10_ms, t.p90_ms, ms.size(), threads, device, static_cast<double>(moved) / 1e6,
      read, of_possible(read, limits.read_gb_s, 1, "GB/s that it reads"), static_cast<double>(work.flops) / 1e9, gflop,
      of_possible(gflop, limits.gflop_s, 0, "GFLOP/s of its multiply-adds"));
  for (const StepTime& s : steps) {
    text += fmt::format("  {:9.4f} ms  {:<28} {}\n", s.min_ms, printable(s.node), s.info.how);
    for (const auto& [implementation, reason] : s.info.declined)
      if (flags.why) text += fmt::format("{:16}not {}: {}\n", "", implementation, reason);
  }
  return text;
}

int run(const Flags& flags) {
  const std::shared_ptr<const Program> program = load_session_program(flags.session);
  const std::string method = choose_method(*program, flags.method);
  const std::vector<TensorInfo> infos = method_inputs(*program, method);
  const std::shared_ptr<const TensorSet> weights = open_session_weights(flags.session);
  const std::vector<HostTensor> inputs = inputs_or_random(flags.inputs, infos, weights.get());
  Session session = load_session(program, flags.session, weights);
  const size_t position = session.method(method);
  write_inputs(session, position, inputs);
  const Rewind rewind = rewind_of(session, position, infos, inputs);
  std::vector<double> ms;
  std::vector<StepTime> steps;
  {
    Progress progress;
    progress.stage("measure runs");
    ms = measure_runs(session, position, flags.seconds, rewind, flags.on_device);
    if (flags.steps > 0) {
      progress.stage("measure steps");
      steps = measure_steps(session, position, flags.seconds, rewind);
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.min_ms > b.min_ms; });
  steps.resize(std::min(static_cast<size_t>(flags.steps), steps.size()));
  print_report(report(method, session, ms, steps, flags));
  return 0;
}

}  // namespace

Action add_bench(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_session_flags(verb, flags->session);
  add_method_flag(verb, flags->method);
  add_input_flags(verb, flags->inputs);
  add_seconds_flag(verb, flags->seconds);
  CLI::Option* steps = add_integer(verb, "--steps", flags->steps, 0, most_listed, "N",
                                   "also time every step alone and list the N slowest");
  verb.add_flag("--why", flags->why, "with --steps: also which implementations declined, and why")->needs(steps);
  verb.add_flag("--on-device", flags->on_device, "inputs and outputs stay on the device: no transfers are measured");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
