// Declares the compiler's flags.
#include "cli/compile_flags.h"

#include <iostream>
#include <iterator>

#include "cli/fail.h"
#include "cli/session.h"

namespace npusim::cli {

void add_ir_flag(CLI::App& verb, std::string& ir) {
  add_file(verb, "ir", ir, "IR.json", "the IR; - is standard input")->required();
}

void add_method_flags(CLI::App& verb, std::string& ir, std::vector<NamedFile>& methods) {
  add_file(verb, "ir", ir, "IR.json", "the IR of the one method, main; - is standard input");
  add_named_files(verb, "--method", methods, "NAME=IR.json", "a method and its IR; once per method");
}

void add_kv_map_flag(CLI::App& verb, CompileFlags& flags) {
  add_file(verb, "--kv-map", flags.kv_map, "KV.json", "which prefill outputs fill which decode states");
}

void add_compile_flags(CLI::App& verb, CompileFlags& flags) {
  add_name(verb, "--target", flags.target, "T", "what to compile for")->capture_default_str();
  add_name(verb, "--dtype", flags.dtype, "D", "compute dtype: auto, float16, bfloat16 or float32")
      ->capture_default_str();
  add_file(verb, "--config", flags.config, "TARGET.json", "overrides of the target's hardware rules");
  add_names(verb, "--disable-fusion", flags.disabled, "NAME,...", "fusions to switch off, or all");
  verb.add_flag("--no-fallback", flags.no_fallback, "refuse what the target cannot run; default: the CPU runs it");
  add_names(verb, "--force-cpu", flags.force_cpu, "OP,...", "operators for the CPU, such as relu or aten.add.Tensor");
  add_file(verb, "--plan", flags.plan, "PLAN.json", "which nodes the CPU runs, as partition -o writes it");
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

void need_one_source(const std::string& ir, const std::vector<NamedFile>& methods) {
  if (ir.empty() == methods.empty())
    fail(ErrorKind::usage, "expected either IR.json or --method NAME=IR.json, found {}",
         ir.empty() ? "neither" : "both");
}

std::vector<MethodSource> method_sources(const std::string& ir, const std::vector<NamedFile>& methods) {
  need_one_source(ir, methods);
  if (!ir.empty()) return {read_source("main", ir)};
  std::vector<MethodSource> list;
  for (const auto& [name, file] : methods) list.push_back(read_source(name, file));
  return list;
}

MethodSource read_source(const std::string& name, const std::string& path) {
  if (path != "-") return {name, path, {}};
  MethodSource source{name, "standard input", std::string(std::istreambuf_iterator(std::cin), {})};
  if (source.json.empty()) fail(ErrorKind::bad_input, "standard input: expected IR JSON, found nothing");
  return source;
}

}  // namespace npusim::cli
