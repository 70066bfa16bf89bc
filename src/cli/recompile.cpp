// npusim recompile: a program's launches made anew from its steps.
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/session.h"
#include "npusim/compiler.h"
#include "npusim/program.h"

namespace npusim::cli {

Action add_recompile(CLI::App& verb) {
  struct Flags {
    std::string program, target, output;
  };
  auto flags = std::make_shared<Flags>();
  add_program_flag(verb, flags->program);
  add_name(verb, "--target", flags->target, "T", "what to compile for; default: what the program was compiled for");
  add_output(verb, "-o,--output", flags->output, "OUT.npubin", "the program to write; - is standard output")
      ->required();
  return [flags] {
    save_program(*recompile(*load_program(flags->program), flags->target), flags->output);
    return 0;
  };
}

}  // namespace npusim::cli
