// A program opened for running: its file, weights and device, as run, bench and generate take them.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "npusim/session.h"

namespace npusim::cli {

struct SessionFlags {
  std::string program, weights, device;
  int threads = 0;
  bool read_weights = false, no_code = false;
  Budget budget;
};
void add_session_flags(CLI::App& verb, SessionFlags& flags);
// Its parts, for verbs that take some of them.
void add_program_flag(CLI::App& verb, std::string& program);
void add_threads_flag(CLI::App& verb, int& threads);

void add_method_flag(CLI::App& verb, std::string& method);
// --no-code alone, and the program file that it is about; what is left out is told as notes.
void add_code_flag(CLI::App& verb, bool& no_code);
std::shared_ptr<const Program> load_program_file(const std::string& path, bool no_code);

// --weights, and whether they are read instead of mapped.
void add_weights_flags(CLI::App& verb, std::string& weights, bool& read);
std::shared_ptr<const TensorSet> open_weights(const std::string& path, bool read);  // none when none are given

// --max-bytes and --max-flops.
void add_budget_flags(CLI::App& verb, Budget& budget);

// The program's file, refused beyond the budget.
std::shared_ptr<const Program> load_session_program(const SessionFlags& flags);
std::shared_ptr<const TensorSet> open_session_weights(const SessionFlags& flags);  // none when none are given
Session open_session(std::shared_ptr<const Program> program, const SessionFlags& flags,
                     std::shared_ptr<const TensorSet> weights);
// The same with its progress shown.
Session load_session(std::shared_ptr<const Program> program, const SessionFlags& flags,
                     std::shared_ptr<const TensorSet> weights);

// The method asked for, or the only one, or `main`. Throws usage.
std::string choose_method(const Program& program, const std::string& asked);

}  // namespace npusim::cli
