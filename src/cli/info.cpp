// npusim info: what an IR file holds and whether it can be compiled.
#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "npusim/compiler.h"

namespace npusim::cli {

Action add_info(CLI::App& verb) {
  struct Flags {
    std::string ir;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  add_ir_flag(verb, flags->ir);
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] {
    print_report(describe_ir(read_source("main", flags->ir), flags->json));
    return 0;
  };
}

}  // namespace npusim::cli
