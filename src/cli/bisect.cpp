// npusim bisect: the first part of a model that is wrong by itself.
#include <optional>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "npusim/compiler.h"
#include "npusim/program.h"

namespace npusim::cli {

Action add_bisect(CLI::App& verb) {
  struct Flags {
    std::string ir, weights, output;
    bool read_weights = false;
    InputFlags inputs;
    CompileFlags compile;
    double tolerance = 0;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  add_ir_flag(verb, flags->ir);
  add_weights_flags(verb, flags->weights, flags->read_weights);
  add_input_flags(verb, flags->inputs);
  add_compile_flags(verb, flags->compile);
  const CLI::Option* tolerance = add_number(verb, "--max-rel-l2", flags->tolerance, 0, 1e9, "X",
                                            "how far a part may be from the reference, by relative L2")
                                     ->default_str("1e-4, 0.02 of float16, 0.04 of bfloat16");
  add_output(verb, "-o,--output", flags->output, "DIR", "leaves what is wrong here, for verify", false);
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags, tolerance, &verb] {
    std::vector<FileUse> written;
    for (const char* name : bisection_files)
      if (const std::string path = flags->output + "/" + name; !flags->output.empty())
        written.push_back({path, "-o " + path, true});
    check_files(verb, std::move(written));
    const MethodSource source = read_source("main", flags->ir);
    CompileOptions options = compile_options(flags->compile);
    const auto weights = open_weights(flags->weights, flags->read_weights);
    Bisection found;
    {
      Progress progress;
      options.progress = [&](const std::string& stage) { progress.stage(stage); };
      const auto program = compile({source}, options).program;
      const std::vector<HostTensor> inputs =
          inputs_or_random(flags->inputs, method_inputs(*program, "main"), weights.get());
      found = bisect(source, options, inputs, weights,
                     tolerance->count() ? std::optional(flags->tolerance) : std::nullopt, flags->output);
    }
    print_report(describe_bisection(found, flags->json));
    return found.culprit < 0 && found.outputs <= found.tolerance ? 0 : 1;
  };
}

}  // namespace npusim::cli
