// Opening of programs, weights and devices.
#include "cli/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/cli.h"
#include "cli/fail.h"
#include "cli/progress.h"
#include "npusim/machine.h"

namespace npusim::cli {

void add_threads_flag(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "host threads; default: one per core, one where there is little work")
      ->type_name("N")
      ->check(integer_in(1, most_threads));
}

void add_budget_flags(CLI::App& verb, Budget& budget) {
  verb.add_option("--max-bytes", budget.max_bytes, "refuse a program that needs more memory; default: any")
      ->type_name("N")
      ->check(integer_in(1, std::numeric_limits<int64_t>::max()));
  verb.add_option("--max-flops", budget.max_flops, "refuse a program that needs more operations a run; default: any")
      ->type_name("N")
      ->check(integer_in(1, std::numeric_limits<int64_t>::max()));
}

void add_session_flags(CLI::App& verb, SessionFlags& flags) {
  verb.add_option("program", flags.program, "the .npubin; - is standard input")->required()->type_name("P.npubin");
  verb.add_option("--weights", flags.weights, "weights: .safetensors, or an index of shards")
      ->type_name("W.safetensors");
  verb.add_option("--device", flags.device, "where to run, such as cpu or cuda:0; default: the program's target")
      ->type_name("D");
  add_threads_flag(verb, flags.threads);
  add_budget_flags(verb, flags.budget);
}

std::shared_ptr<const Program> load_session_program(const SessionFlags& flags) {
  std::shared_ptr<const Program> program = load_program(flags.program);
  check_budget(*program, flags.budget);
  return program;
}

std::shared_ptr<const TensorSet> open_session_weights(const SessionFlags& flags) {
  return flags.weights.empty() ? nullptr : open_tensors(flags.weights);
}

Session open_session(std::shared_ptr<const Program> program, const SessionFlags& flags,
                     std::shared_ptr<const TensorSet> weights) {
  SessionOptions options;
  options.weights = std::move(weights);
  options.threads = flags.threads;
  if (!flags.device.empty()) options.devices = {open_backend(flags.device)};
  return Session(std::move(program), std::move(options));
}

Session open_session(std::shared_ptr<const Program> program, const SessionFlags& flags) {
  Progress progress;
  progress.stage("load");
  return open_session(std::move(program), flags, open_session_weights(flags));
}

std::string choose_method(const Program& program, const std::string& asked) {
  const std::vector<std::string> names = method_names(program);
  const std::string wanted = !asked.empty() ? asked : names.size() == 1 ? names[0] : "main";
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  if (asked.empty()) fail(ErrorKind::usage, "expected --method: the program has {}", fmt::join(names, ", "));
  fail(ErrorKind::usage, "--method {}: the program has {}", asked, fmt::join(names, ", "));
}

}  // namespace npusim::cli
