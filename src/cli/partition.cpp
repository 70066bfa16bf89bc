// npusim partition: what runs on the target's device and what on the CPU, and why.
#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/fail.h"
#include "cli/progress.h"
#include "npusim/compiler.h"
#include "npusim/program.h"

namespace npusim::cli {

Action add_partition(CLI::App& verb) {
  struct Flags {
    std::string ir, output, picture;
    std::vector<std::string> methods;
    bool json = false;
    CompileFlags compile;
  };
  auto flags = std::make_shared<Flags>();
  verb.add_option("ir", flags->ir, "the IR of the one method, main; - is standard input")->type_name("IR.json");
  verb.add_option("--method", flags->methods, "a method and its IR; once per method")
      ->type_name("NAME=IR.json")
      ->allow_extra_args(false);
  verb.add_option("-o,--output", flags->output, "the plan, to edit and to give to compile --plan")
      ->type_name("PLAN.json");
  verb.add_option("--picture", flags->picture, "segments and transfers as a picture")->type_name("OUT.svg");
  add_compile_flags(verb, flags->compile);
  verb.add_option("--kv-map", flags->compile.kv_map, "which prefill outputs fill which decode states")
      ->type_name("KV.json");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] {
    if (flags->output == "-" && flags->picture == "-")
      fail(ErrorKind::usage, "-o - and --picture -: standard output takes one of them");
    const bool reports = flags->output != "-" && flags->picture != "-";
    if (flags->json && !reports)
      fail(ErrorKind::usage, "{} - leaves no standard output for --json", flags->output == "-" ? "-o" : "--picture");
    const std::vector<MethodSource> methods = method_sources(flags->ir, flags->methods);
    CompileOptions options = compile_options(flags->compile);
    options.text = false;
    CompileResult result;
    {
      Progress progress;
      options.progress = [&](const std::string& stage) { progress.stage(stage); };
      result = compile(methods, options);
    }
    if (!flags->output.empty()) save_text(partition_plan(*result.program), flags->output);
    if (!flags->picture.empty()) save_text(partition_picture(*result.program), flags->picture);
    if (reports) print_report(describe_partition(*result.program, flags->json));
    return 0;
  };
}

}  // namespace npusim::cli
