// Declares the compiler's flags.
#include "cli/compile_flags.h"

#include <iostream>
#include <iterator>

#include "cli/fail.h"
#include "cli/session.h"

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
  verb.add_flag("--no-fallback", flags.no_fallback, "refuse what the target cannot run; default: the CPU runs it");
  verb.add_option("--force-cpu", flags.force_cpu, "operators for the CPU, such as relu or aten.add.Tensor")
      ->type_name("OP,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--plan", flags.plan, "which nodes the CPU runs, as partition -o writes it")->type_name("PLAN.json");
  verb.add_flag("--strict", flags.strict, "round at every edge of the IR, as eager PyTorch does");
  add_budget_flags(verb, flags.budget);
}

CompileOptions compile_options(const CompileFlags& flags) {
  CompileOptions options;
  options.target = flags.target;
  options.dtype = flags.dtype;
  options.config.path = flags.config;
  options.strict = flags.strict;
  options.kv_map.path = flags.kv_map;
  options.fallback = !flags.no_fallback;
  options.force_cpu = {flags.force_cpu.begin(), flags.force_cpu.end()};
  options.plan.path = flags.plan;
  options.budget = flags.budget;
  options.disabled_fusions = {flags.disabled.begin(), flags.disabled.end()};
  return options;
}

void need_one_source(const std::string& ir, const std::vector<std::string>& methods) {
  if (ir.empty() == methods.empty())
    fail(ErrorKind::usage, "expected either IR.json or --method NAME=IR.json, found {}",
         ir.empty() ? "neither" : "both");
}

std::vector<MethodSource> method_sources(const std::string& ir, const std::vector<std::string>& methods) {
  need_one_source(ir, methods);
  if (!ir.empty()) return {read_source("main", ir)};
  std::vector<MethodSource> list;
  for (const std::string& method : methods) {
    const size_t equals = method.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == method.size())
      fail(ErrorKind::usage, "--method: expected NAME=IR.json, found '{}'", method);
    list.push_back(read_source(method.substr(0, equals), method.substr(equals + 1)));
  }
  return list;
}

MethodSource read_source(const std::string& name, const std::string& path) {
  if (path != "-") return {name, path, {}};
  MethodSource source{name, "standard input", std::string(std::istreambuf_iterator(std::cin), {})};
  if (source.json.empty()) fail(ErrorKind::bad_input, "standard input: expected IR JSON, found nothing");
  return source;
}

}  // namespace npusim::cli
