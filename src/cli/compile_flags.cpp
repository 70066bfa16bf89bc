// Declares the compiler's flags.
#include "cli/compile_flags.h"

#include <iostream>
#include <iterator>

#include "cli/fail.h"

namespace npusim::cli {

void add_compile_flags(CLI::App& verb, CompileFlags& flags) {
  verb.add_option("--target", flags.target, "what to compile for")->type_name("T")->capture_default_str();
  verb.add_option("--dtype", flags.dtype, "compute dtype: auto, float16, bfloat16 or float32")
      ->type_name("D")
      ->capture_default_str();
  verb.add_option("--config", flags.config, "overrides of the target's hardware rules")->type_name("TARGET.json");
  verb.add_option("--disable-fusion", flags.disabled, "fusions to switch off, or all")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_flag("--strict", flags.strict, "round at every edge of the IR, as eager PyTorch does");
}

CompileOptions compile_options(const CompileFlags& flags) {
  CompileOptions options;
  options.target = flags.target;
  options.dtype = flags.dtype;
  options.config.path = flags.config;
  options.strict = flags.strict;
  options.kv_map.path = flags.kv_map;
  options.disabled_fusions = {flags.disabled.begin(), flags.disabled.end()};
  return options;
}

MethodSource read_source(const std::string& name, const std::string& path) {
  if (path != "-") return {name, path, {}};
  MethodSource source{name, "standard input", std::string(std::istreambuf_iterator(std::cin), {})};
  if (source.json.empty()) fail(ErrorKind::bad_input, "standard input: expected IR JSON, found nothing");
  return source;
}

}  // namespace npusim::cli
