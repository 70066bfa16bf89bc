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

// To standard output, the place of reports, with names in them made printable (npusim/message.h); throws bad_input when
// it cannot be written.
void print_report(const std::string& text);
// The same of what is the result itself and no report.
void print_raw(const std::string& text);
// "note: …" on standard error.
void print_note(const std::string& text);

}  // namespace npusim::cli
