// npusim tune: times the candidates of a program's kernels, and keeps the fastest in the program.
#include "npusim/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/fail.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "npusim/compare.h"

namespace npusim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  SessionFlags session;
  InputFlags inputs;
  std::string method, output;
  double seconds = 0.3;
  int ways = 8;
  bool json = false;
};

// What the flags say of every session.
struct Measured {
  const Flags& flags;
  std::string method;
  std::vector<TensorInfo> infos;
  std::vector<HostTensor> inputs;
  std::shared_ptr<const TensorSet> weights;

  Session open(const std::shared_ptr<const Program>& program) const {
    Session session = open_session(program, flags.session, weights);
    write_inputs(session, session.method(method), inputs);
    return session;
  }
};

// Two programs, each with its inputs.
struct Both {
  double before_ms = 0, after_ms = 0;  // medians
  double rel_l2 = 0;                   // the largest of a floating output's
};

// Alternately, so that a device whose clocks drift favours neither.
Both measure_both(const Measured& m, const std::shared_ptr<const Program>& before,
                  const std::shared_ptr<const Program>& after) {
  constexpr int rounds = 3;
  constexpr double most_rel_l2 = 0.05;  // sums in another order are far below it
  Session sessions[] = {m.open(before), m.open(after)};
  const size_t method = sessions[0].method(m.method);
  Both both;
  for (Session& session : sessions) session.run(method);
  const std::vector<TensorInfo> outputs = method_outputs(*before, m.method);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].type.dtype)) continue;  // a token may be another one where two are as likely
    const std::vector<double> now = to_doubles(sessions[1].output_view(method, i));
    const std::vector<double> was = to_doubles(sessions[0].output_view(method, i));
    const double rel_l2 = compare(now, was, static_cast<int64_t>(now.size())).relative_l2;
    if (!(rel_l2 <= most_rel_l2))
      fail(ErrorKind::internal,
           "output '{}' is {:.1e} (relative L2) from what it was before: the program stays as it was", outputs[i].name,
           rel_l2);
    both.rel_l2 = std::max(both.rel_l2, rel_l2);
  }
  std::vector<double> ms[2];
  for (int round = 0; round < rounds; ++round)
    for (size_t n = 0; n < 2; ++n) {
      const std::vector<double> some =
          measure_runs(sessions[n], method, m.flags.seconds, rewind_of(sessions[n], method, m.infos, m.inputs), true);
      ms[n].insert(ms[n].end(), some.begin(), some.end());
    }
  both.before_ms = summarize(ms[0]).median_ms, both.after_ms = summarize(ms[1]).median_ms;
  return both;
}

std::string report(const Flags& flags, const Measured& m, const Tuning& tuning, const Both& both, bool kept,
                   const std::string& path) {
  const auto is_changed = [](const TunedKernel& k) { return k.after != k.before; };
  const auto changed = std::count_if(tuning.kernels.begin(), tuning.kernels.end(), is_changed);
  if (flags.json) {
    auto kernels = Json::array();
    for (const TunedKernel& k : tuning.kernels) {
      auto candidates = Json::array();
      for (const TimedCandidate& candidate : k.candidates)
        candidates.push_back({{"how", candidate.how}, {"ms", candidate.ms}});
      kernels.push_back({{"kernel", k.kernel},
                         {"launches", k.launches},
                         {"ways", candidates},
                         {"before", k.before},
                         {"before_ms", k.before_ms},
                         {"after", k.after},
                         {"after_ms", k.after_ms}});
    }
    return json_report(Json{{"program", path},
                            {"method", m.method},
                            {"kept", kept},
                            {"before_ms", both.before_ms},
                            {"after_ms", both.after_ms},
                            {"rel_l2", both.rel_l2},
                            {"kernels", kernels}});
  }
  std::string text;
  if (tuning.kernels.empty())
    text = fmt::format("{}: every kernel has one candidate, nothing is to choose\n", m.method);
  else if (changed == 0)
    text = fmt::format("{}: of {} kernels with several candidates no other one is faster\n", m.method,
                       tuning.kernels.size());
  else
    text = fmt::format(
        "{}: {:.4f} ms, before {:.4f}; {} of {} kernels with several candidates take another one; outputs within "
        "{:.1e} "
        "(relative L2) of what they were\n",
        m.method, both.after_ms, both.before_ms, changed, tuning.kernels.size(), both.rel_l2);
  if (changed > 0 && !kept) text += "  as a whole it is not faster: the program stays as it was\n";
  for (const TunedKernel& k : tuning.kernels)
    if (is_changed(k))
      text += fmt::format("  {:.4f} ms for {:.4f}, {} launch{}: {}\n      {}\n      before: {}\n", k.after_ms,
                          k.before_ms, k.launches, k.launches == 1 ? "" : "es", k.kernel, k.after, k.before);
  return text + fmt::format("{}\n", path);
}

int run(const Flags& flags) {
  const std::string path = flags.output.empty() ? flags.session.program : flags.output;
  if (path == "-") fail(ErrorKind::usage, "expected -o OUT.npubin: the program came from standard input");
  const std::shared_ptr<const Program> program = load_session_program(flags.session);
  Measured m{flags, choose_method(*program, flags.method), {}, {}, open_session_weights(flags.session)};
  m.infos = method_inputs(*program, m.method);
  m.inputs = inputs_or_random(flags.inputs, m.infos, m.weights.get());
  TuneOptions options;
  options.method = m.method;
  options.candidates = static_cast<size_t>(flags.ways);
  std::shared_ptr<const Program> taken;
  Tuning tuning;
  Both both;
  {
    Progress progress;
    progress.stage("load");
    {
      const Session session = m.open(program);
      taken = session.shared_program();
      options.device = session.device(0).description;
    }
    options.progress = [&](const std::string& stage) { progress.stage(stage); };
    tuning = tune(program, taken, options, [&](const std::shared_ptr<const Program>& trial) {
      Session session = m.open(trial);
      const size_t method = session.method(m.method);
      const Rewind rewind = rewind_of(session, method, m.infos, m.inputs);
      rewind();
      session.run(method);
      std::vector<double> ms;
      for (const StepTime& step : measure_steps(session, method, flags.seconds, rewind)) ms.push_back(step.min_ms);
      return ms;
    });
    progress.stage("measure both");
    if (tuning.program != program) both = measure_both(m, program, tuning.program);
  }
  const bool kept = tuning.program != program && both.after_ms < both.before_ms;
  if (kept || !flags.output.empty()) save_program(kept ? *tuning.program : *program, path);
  print_report(report(flags, m, tuning, both, kept, path));
  return 0;
}

}  // namespace

Action add_tune(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_session_flags(verb, flags->session);
  add_method_flag(verb, flags->method);
  add_input_flags(verb, flags->inputs);
  add_seconds_flag(verb, flags->seconds);
  add_integer(verb, "--ways", flags->ways, 2, 64, "N", "of each kernel, at most so many")->default_str("8");
  add_in_place_output(verb, "-o,--output", flags->output, "OUT.npubin",
                      "where the program goes; default: where it came from");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] { return run(*flags); };
}

}  // namespace npusim::cli
