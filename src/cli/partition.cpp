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
    std::vector<NamedFile> methods;
    bool json = false;
    CompileFlags compile;
  };
  auto flags = std::make_shared<Flags>();
  add_method_flags(verb, flags->ir, flags->methods);
  add_output(verb, "-o,--output", flags->output, "PLAN.json", "the plan, to edit and to give to compile --plan");
  add_output(verb, "--picture", flags->picture, "OUT.svg", "segments and transfers as a picture");
  add_compile_flags(verb, flags->compile);
  add_kv_map_flag(verb, flags->compile);
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] {
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
    std::vector<NewFile> files;
    if (!flags->output.empty()) files.push_back({flags->output, partition_plan(*result.program)});
    if (!flags->picture.empty()) files.push_back({flags->picture, partition_picture(*result.program)});
    save_files(files);
    if (reports) print_report(describe_partition(*result.program, flags->json));
    return 0;
  };
}

}  // namespace npusim::cli
