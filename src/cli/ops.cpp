// npusim ops: the table of operators.
#include "cli/cli.h"
#include "npusim/compiler.h"

namespace npusim::cli {

Action add_ops(CLI::App& verb) {
  struct Flags {
    std::string target = "cpu";
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  verb.add_option("--target", flags->target, "the target asked about")->type_name("T")->capture_default_str();
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] {
    print_report(describe_ops(flags->target, flags->json));
    return 0;
  };
}

}  // namespace npusim::cli
