// The command line as a whole: its verbs, and what a command does with its words.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "cli/cli.h"

namespace npusim::cli {

// All verbs and their options, and what was asked for once the words are parsed.
struct Command {
  Command();
  CLI::App app;
  Action chosen;
  std::string aten;
};

// Does what the words say and returns the exit code of docs/cli.md; errors are lines on standard error.
int run(int argc, const char* const* argv);

}  // namespace npusim::cli
