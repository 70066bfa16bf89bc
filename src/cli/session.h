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
  Budget budget;
};
void add_session_flags(CLI::App& verb, SessionFlags& flags);
// --threads alone, for verbs that open no program file.
void add_threads_flag(CLI::App& verb, int& threads);

// --max-bytes and --max-flops.
void add_budget_flags(CLI::App& verb, Budget& budget);

// The program's file, refused beyond the budget.
std::shared_ptr<const Program> load_session_program(const SessionFlags& flags);
std::shared_ptr<const TensorSet> open_session_weights(const SessionFlags& flags);  // none when none are given
Session open_session(std::shared_ptr<const Program> program, const SessionFlags& flags,
                     std::shared_ptr<const TensorSet> weights);
Session open_session(std::shared_ptr<const Program> program, const SessionFlags& flags);

// The method asked for, or the only one, or `main`. Throws usage.
std::string choose_method(const Program& program, const std::string& asked);

}  // namespace npusim::cli
