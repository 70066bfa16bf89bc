// Picks the verb, maps errors to exit codes and one line each on standard error.
#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <sstream>

#include "cli/fail.h"
#include "cli/files.h"
#include "cli/options.h"
#include "npusim/aten.h"
#include "npusim/machine.h"
#include "npusim/message.h"

namespace npusim::cli {
namespace {

struct Verb {
  const char* name;
  const char* summary;
  Action (*add)(CLI::App&);
};

constexpr Verb verbs[] = {
    {"compile", "IR JSON to a program", add_compile},
    {"run", "runs a program once or more often", add_run},
    {"generate", "continues a text with a language model", add_generate},
    {"verify", "compares a model with golden outputs or with the reference", add_verify},
    {"bisect", "the first part of a model that is wrong by itself", add_bisect},
    {"bench", "measures a program against the machine's limits", add_bench},
    {"tune", "times the candidates of a program's kernels, and keeps the fastest", add_tune},
    {"recompile", "a program's launches made anew from its steps", add_recompile},
    {"profile", "where a method's time goes", add_profile},
    {"partition", "what runs on the target's device and what on the CPU, and why", add_partition},
    {"describe", "what a program holds", add_describe},
    {"info", "what an IR file holds", add_info},
    {"ops", "the operators that can be compiled", add_ops},
    {"devices", "the devices of this machine", add_devices},
};

// docs/cli.md
int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::bad_input:
      return 3;
    case ErrorKind::unsupported:
      return 4;
    case ErrorKind::device:
      return 5;
    case ErrorKind::internal:
      return 1;
    case ErrorKind::cancelled:
      return 130;
  }
  return 1;
}

void print_error(const Problem& problem) { std::fprintf(stderr, "error: %s\n", to_string(problem).c_str()); }
void print_error(const std::string& reason) { print_error(Problem{"", reason}); }

int run_action(const Action& action) {
  try {
    instruction_set_name();  // a wrong NPUSIM_ISA is refused whatever the verb
    return action();
  } catch (const Error& error) {
    for (const Problem& problem : error.problems()) print_error(problem);
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return exit_code(ErrorKind::device);
  } catch (const std::exception& error) {
    print_error(std::string("internal: ") + error.what());
    return exit_code(ErrorKind::internal);
  }
}

bool is_verb(const std::string& word) {
  return std::any_of(std::begin(verbs), std::end(verbs), [&](const Verb& verb) { return word == verb.name; });
}

// Why the command names no verb; empty when it does, or asks for help.
std::string refuse_verb(const std::vector<std::string>& words) {
  const std::string word = words.empty() ? "" : words[0];
  std::vector<std::string> known;
  for (const Verb& verb : verbs) known.emplace_back(verb.name);
  if (word.starts_with("-") || is_verb(word)) return {};
  if (word.empty()) return fmt::format("expected a verb: {}", fmt::join(known, ", "));
  return fmt::format("there is no verb '{}': expected {}{}", word, fmt::join(known, ", "), did_you_mean(word, known));
}

int usage(const std::string& problem) {
  print_error(problem);
  return exit_code(ErrorKind::usage);
}

}  // namespace

void print_raw(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail(ErrorKind::bad_input, "cannot write to standard output: {}", std::strerror(errno));
}

void print_report(const std::string& text) { print_raw(printable_lines(text)); }

void print_note(const std::string& text) { std::fprintf(stderr, "note: %s\n", printable(text).c_str()); }

Command::Command() : app("npusim: compiles PyTorch models for a simulated NPU and runs them", "npusim") {
  app.set_version_flag("--version", NPUSIM_VERSION);
  app.require_subcommand(1);
  add_file(app, "--aten", aten, "FILE",
           "the plugin that runs operators without a kernel, before or behind the verb's flags", false);
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->fallthrough();
    sub->callback(
        [this, sub, action = verb.add(*sub)] { chosen = [sub, action] { return check_files(*sub), action(); }; });
  }
}

namespace {

int run_words(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::string no_verb = refuse_verb(words);
  if (!no_verb.empty()) return usage(no_verb);
  Command command;
  // Options of the program itself may stand before the verb.
  const auto verb = std::find_if(words.begin(), words.end(), is_verb);
  const CLI::App& asked = verb == words.end() ? command.app : *command.app.get_subcommand(*verb);
  std::vector<std::string> others(words.begin(), verb);
  if (verb != words.end()) others.insert(others.end(), verb + 1, words.end());
  if (const std::string problem = refuse_words(asked, others); !problem.empty()) return usage(problem);
  try {
    command.app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int code = command.app.exit(success, text, text);
    print_raw(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    return usage(error.what());
  }
  use_aten_plugin(command.aten);
  return command.chosen();
}

}  // namespace

int run(int argc, const char* const* argv) {
  return run_action([&] { return run_words(argc, argv); });
}

}  // namespace npusim::cli
