// What the verbs of the command line share: how a verb is declared, and where reports go.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace npusim::cli {

// Runs a verb once its flags are parsed; returns the exit code.
using Action = std::function<int()>;

// One per file: adds the verb's flags and returns what it does.
Action add_bench(CLI::App& verb);
Action add_bisect(CLI::App& verb);
Action add_compile(CLI::App& verb);
Action add_describe(CLI::App& verb);
Action add_devices(CLI::App& verb);
Action add_generate(CLI::App& verb);
Action add_info(CLI::App& verb);
Action add_ops(CLI::App& verb);
Action add_partition(CLI::App& verb);
Action add_profile(CLI::App& verb);
Action add_recompile(CLI::App& verb);
Action add_run(CLI::App& verb);
Action add_tune(CLI::App& verb);
Action add_verify(CLI::App& verb);

// For App::add_option(…)->check(…): the bounds are allowed.
CLI::Validator integer_in(int64_t low, int64_t high);
CLI::Validator number_in(double low, double high);

// To standard output, the place of reports; throws bad_input when it cannot be written.
void print_report(const std::string& text);
// "note: …" on standard error.
void print_note(const std::string& text);

}  // namespace npusim::cli
