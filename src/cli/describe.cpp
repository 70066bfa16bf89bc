// npusim describe: what a program holds.
#include "cli/cli.h"
#include "cli/session.h"
#include "npusim/program.h"

namespace npusim::cli {

Action add_describe(CLI::App& verb) {
  struct Flags {
    std::string program;
    bool steps = false, json = false, no_code = false;
  };
  auto flags = std::make_shared<Flags>();
  add_program_flag(verb, flags->program);
  verb.add_flag("--steps", flags->steps, "what it does in order: steps, their buffers and origins, launches");
  add_code_flag(verb, flags->no_code);
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] {
    const auto program = load_program_file(flags->program, flags->no_code);
    print_report(flags->steps ? describe_steps(*program, flags->json) : describe(*program, flags->json));
    return 0;
  };
}

}  // namespace npusim::cli
