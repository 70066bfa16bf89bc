// Repeats until percentiles mean something.
#include "cli/measure.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/timing.h"
#include "npusim/error.h"
#include "npusim/machine.h"

namespace npusim::cli {
namespace {

constexpr int warm_up_runs = 3;
constexpr size_t wanted_runs = 20;  // percentiles of fewer mean little
constexpr size_t least_runs = 5;    // of a model so slow that 20 take five times as long as asked

}  // namespace

void add_seconds_flag(CLI::App& verb, double& seconds) {
  add_number(verb, "--seconds", seconds, 0.01, 3600, "S", "how long to measure")
      ->default_str(fmt::format("{}", seconds));
}

Rewind rewind_of(Session& session, size_t method, const std::vector<TensorInfo>& infos,
                 const std::vector<HostTensor>& inputs) {
  return [&session, method, &infos, &inputs] {
    for (size_t i = 0; i < infos.size(); ++i)
      if (infos[i].state && infos[i].role != "data") session.set_input(method, i, inputs[i].data);
  };
}

std::vector<double> measure_runs(Session& session, size_t method, double seconds, const Rewind& rewind,
                                 bool on_device) {
  const Stopwatch warming;
  for (int i = 0; i < warm_up_runs && (i == 0 || warming.ms() < seconds * 1e3); ++i) {
    rewind();
    session.run(method);
  }
  std::vector<double> ms;
  const Stopwatch total;
  auto enough = [&] {
    const double elapsed = total.ms() / 1e3;
    return elapsed >= seconds && (ms.size() >= wanted_runs || (ms.size() >= least_runs && elapsed >= 5 * seconds));
  };
  while (!enough()) {
    rewind();
    const Stopwatch watch;
    if (on_device)
      session.run_on_device(method);
    else
      session.run(method);
    ms.push_back(watch.ms());
  }
  return ms;
}

std::vector<StepTime> measure_steps(Session& session, size_t method, double seconds, const Rewind& rewind) {
  const std::string name = method_names(session.program())[method];
  const std::vector<std::string> steps = step_names(session.program(), name);
  std::vector<StepTime> times;
  for (size_t i = 0; i < steps.size(); ++i) times.push_back({steps[i], session.step_info(method, i), 1e300});
  const Stopwatch total;
  for (size_t runs = 0; runs < least_runs || total.ms() < seconds * 1e3; ++runs) {
    rewind();
    const std::vector<double> ms = session.time_steps(method);
    for (size_t i = 0; i < steps.size(); ++i) times[i].min_ms = std::min(times[i].min_ms, ms[i]);
  }
  return times;
}

DeviceLimits limits_of(const Session& session, size_t nth) {
  try {
    const DeviceLimits own = measure_device(session.device(nth).name);
    if (own.read_gb_s > 0) return own;
  } catch (const Error& error) {  // such as no memory left beside the program's: what was measured stands
    print_note(fmt::format("rates have nothing beside them: {}", error.what()));
    return {};
  }
  const int threads = session.threads();
  const double bf16 = program_info(session.program()).dtype == DType::bf16 ? probe_bf16_gflop_s(threads) : 0;
  return {probe_read_gb_s(threads), bf16 > 0 ? bf16 : probe_gflop_s(threads)};
}

std::string share_text(double rate, double possible) {
  return possible > 0 ? fmt::format(" {:>3.0f} %", 100 * rate / possible) : "";
}

}  // namespace npusim::cli
