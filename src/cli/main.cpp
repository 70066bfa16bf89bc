// The command line: picks the verb, maps errors to exit codes and one line each on standard error.
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <cstdio>
#include <new>

#include "cli/cli.h"
#include "cli/fail.h"
#include "npusim/aten.h"
#include "npusim/cancel.h"
#include "npusim/machine.h"

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
    {"tune", "times the ways to make a program's kernels, and keeps the fastest", add_tune},
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

// One line per problem, whatever characters its names have.
void print_errors(std::string_view message) {
  std::string text;
  while (true) {
    const size_t end = message.find('\n');
    text += "error: ";
    for (char c : message.substr(0, end)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    text += '\n';
    if (end == std::string_view::npos || end + 1 == message.size()) break;
    message.remove_prefix(end + 1);
  }
  std::fputs(text.c_str(), stderr);
}

int run_action(const Action& action) {
  try {
    instruction_set_name();  // a wrong NPUSIM_ISA is refused whatever the verb
    return action();
  } catch (const Error& error) {
    print_errors(error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    print_errors("out of memory");
    return exit_code(ErrorKind::device);
  } catch (const std::exception& error) {
    print_errors(std::string("internal: ") + error.what());
    return exit_code(ErrorKind::internal);
  }
}

// Why the command names no verb; empty when it does, or asks for help.
std::string refuse_verb(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  std::string known;
  for (const Verb& verb : verbs) {
    if (word == verb.name) return {};
    known += (known.empty() ? "" : ", ") + std::string(verb.name);
  }
  if (word.starts_with("-")) return {};
  return word.empty() ? "expected a verb: " + known : fmt::format("there is no verb '{}': expected {}", word, known);
}

int run(int argc, char** argv) {
  if (const std::string problem = refuse_verb(argc, argv); !problem.empty()) {
    print_errors(problem);
    return exit_code(ErrorKind::usage);
  }
  CLI::App app("npusim: compiles PyTorch models for a simulated NPU and runs them", "npusim");
  app.set_version_flag("--version", NPUSIM_VERSION);
  app.require_subcommand(1);
  Action chosen;
  std::string aten;
  app.add_option("--aten", aten, "the plugin that runs operators without a kernel, before or behind the verb's flags")
      ->type_name("FILE");
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->fallthrough();
    sub->callback([&chosen, action = verb.add(*sub)] { chosen = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    print_errors(error.what());
    return exit_code(ErrorKind::usage);
  }
  use_aten_plugin(aten);
  return run_action(chosen);
}

}  // namespace

void print_report(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail(ErrorKind::bad_input, "cannot write to standard output");
}

void print_note(const std::string& text) { std::fprintf(stderr, "note: %s\n", text.c_str()); }

}  // namespace npusim::cli

int main(int argc, char** argv) {
#ifdef M_MXFAST
  // Every large block that is freed would make glibc walk all small ones it has set aside: a tenth of compiling 100,000
  // nodes, and growing faster than they.
  mallopt(M_MXFAST, 0);
#endif
  npusim::bind_threads(argv);
  npusim::end_on_signals();
  return npusim::cli::run(argc, argv);
}
