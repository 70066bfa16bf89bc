// Opening of programs, weights and devices.
#include "cli/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/cli.h"
#include "cli/fail.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "npusim/machine.h"

namespace npusim::cli {

void add_threads_flag(CLI::App& verb, int& threads) {
  add_integer(verb, "--threads", threads, 1, most_threads, "N",
              "host threads; default: one per core, one where there is little work");
}

void add_budget_flags(CLI::App& verb, Budget& budget) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  add_integer(
      verb, "--max-bytes", [&budget](int64_t n) { budget.max_bytes = static_cast<uint64_t>(n); }, 1, most, "N",
      "refuse a program that needs more memory; default: any");
  add_integer(
      verb, "--max-flops", [&budget](int64_t n) { budget.max_flops = static_cast<uint64_t>(n); }, 1, most, "N",
      "refuse a program that needs more operations a run; default: any");
}

void add_program_flag(CLI::App& verb, std::string& program) {
  add_file(verb, "program", program, "P.npubin", "the .npubin; - is standard input")->required();
}

void add_method_flag(CLI::App& verb, std::string& method) {
  add_name(verb, "--method", method, "NAME", "which method; default: the only one, or main");
}

void add_session_flags(CLI::App& verb, SessionFlags& flags) {
  add_program_flag(verb, flags.program);
  add_weights_flags(verb, flags.weights, flags.read_weights);
  add_name(verb, "--device", flags.device, "D", "where to run, such as cpu or cuda:0; default: the program's target");
  add_code_flag(verb, flags.no_code);
  add_threads_flag(verb, flags.threads);
  add_budget_flags(verb, flags.budget);
}

std::shared_ptr<const Program> load_session_program(const SessionFlags& flags) {
  std::shared_ptr<const Program> program = load_program_file(flags.program, flags.no_code);
  check_budget(*program, flags.budget);
  return program;
}

void add_weights_flags(CLI::App& verb, std::string& weights, bool& read) {
  add_file(verb, "--weights", weights, "W.safetensors", "weights: .safetensors, or an index of shards", false);
  verb.add_flag("--read-weights", read,
                "read the weights into memory: files that are mapped must not change meanwhile");
}

std::shared_ptr<const TensorSet> open_weights(const std::string& path, bool read) {
  if (path.empty()) return nullptr;
  return read ? read_tensors(path) : open_tensors(path);
}

void add_code_flag(CLI::App& verb, bool& no_code) {
  verb.add_flag("--no-code", no_code,
                "leave out launches, which are code: the CPU runs their steps; calls of a plugin are refused");
}

std::shared_ptr<const Program> load_program_file(const std::string& path, bool no_code) {
  std::vector<std::string> notes;
  auto program = load_program(path, {.code = !no_code, .notes = &notes});
  for (const std::string& note : notes) print_note(note);
  return program;
}

std::shared_ptr<const TensorSet> open_session_weights(const SessionFlags& flags) {
  return open_weights(flags.weights, flags.read_weights);
}

Session open_session(std::shared_ptr<const Program> program, const SessionFlags& flags,
                     std::shared_ptr<const TensorSet> weights) {
  SessionOptions options;
  options.weights = std::move(weights);
  options.threads = flags.threads;
  if (!flags.device.empty()) options.devices = {open_backend(flags.device)};
  return Session(std::move(program), std::move(options));
}

Session load_session(std::shared_ptr<const Program> program, const SessionFlags& flags,
                     std::shared_ptr<const TensorSet> weights) {
  Progress progress;
  progress.stage("load");
  return open_session(std::move(program), flags, std::move(weights));
}

std::string choose_method(const Program& program, const std::string& asked) {
  const std::vector<std::string> names = method_names(program);
  const std::string wanted = !asked.empty() ? asked : names.size() == 1 ? names[0] : "main";
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  if (asked.empty()) fail(ErrorKind::usage, "expected --method: the program has {}", fmt::join(names, ", "));
  fail(ErrorKind::usage, "--method {}: the program has {}", asked, fmt::join(names, ", "));
}

}  // namespace npusim::cli
