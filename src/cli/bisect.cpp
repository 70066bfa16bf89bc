// npusim bisect: the first part of a model that is wrong by itself.
#include <optional>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "npusim/compiler.h"
#include "npusim/program.h"

namespace npusim::cli {

Action add_bisect(CLI::App& verb) {
  struct Flags {
    std::string ir, weights, output;
    InputFlags inputs;
    CompileFlags compile;
    std::optional<double> tolerance;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  verb.add_option("ir", flags->ir, "the IR; - is standard input")->required()->type_name("IR.json");
  verb.add_option("--weights", flags->weights, "weights: .safetensors, or an index of shards")
      ->type_name("W.safetensors");
  add_input_flags(verb, flags->inputs);
  add_compile_flags(verb, flags->compile);
  verb.add_option(
          "--max-rel-l2", flags->tolerance,
          "how far a part may be from the reference, by relative L2. Default: 1e-4, 0.02 of float16, 0.04 of bfloat16")
      ->type_name("X")
      ->check(number_in(0, 1e9));
  verb.add_option("-o,--output", flags->output, "leaves what is wrong here, for verify")->type_name("DIR");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags] {
    const MethodSource source = read_source("main", flags->ir);
    CompileOptions options = compile_options(flags->compile);
    const auto weights = flags->weights.empty() ? nullptr : open_tensors(flags->weights);
    Bisection found;
    {
      Progress progress;
      options.progress = [&](const std::string& stage) { progress.stage(stage); };
      const auto program = compile({source}, options).program;
      const std::vector<HostTensor> inputs = inputs_or_random(flags->inputs, method_inputs(*program, "main"));
      found = bisect(source, options, inputs, weights, flags->tolerance, flags->output);
    }
    print_report(describe_bisection(found, flags->json));
    return found.culprit < 0 && found.outputs <= found.tolerance ? 0 : 1;
  };
}

}  // namespace npusim::cli
