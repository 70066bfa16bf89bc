// npusim recompile: a program's launches made anew from its steps.
#include "cli/cli.h"
#include "npusim/compiler.h"
#include "npusim/program.h"

namespace npusim::cli {

Action add_recompile(CLI::App& verb) {
  struct Flags {
    std::string program, target, output;
  };
  auto flags = std::make_shared<Flags>();
  verb.add_option("program", flags->program, "the .npubin; - is standard input")->required()->type_name("P.npubin");
  verb.add_option("--target", flags->target, "what to compile for; default: what the program was compiled for")
      ->type_name("T");
  verb.add_option("-o,--output", flags->output, "the program to write; - is standard output")
      ->required()
      ->type_name("OUT.npubin");
  return [flags] {
    save_program(*recompile(*load_program(flags->program), flags->target), flags->output);
    return 0;
  };
}

}  // namespace npusim::cli
