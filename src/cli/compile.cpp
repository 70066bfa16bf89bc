// npusim compile: IR JSON to a program file.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/fail.h"
#include "cli/files.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "npusim/compiler.h"
#include "npusim/message.h"
#include "npusim/program.h"

namespace npusim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string ir;
  std::vector<NamedFile> methods;
  std::string output;
  std::string dump;
  bool text = false, no_text = false;
  bool json = false;
  CompileFlags compile;
};

// Where the program goes: without -o, the IR's name in the working directory.
std::string output_path(const Flags& flags) {
  if (!flags.output.empty()) return flags.output;
  if (flags.ir.empty() || flags.ir == "-")
    fail(ErrorKind::usage, "expected -o OUT.npubin: there is no one IR file to name it after");
  return std::filesystem::path(flags.ir).stem().string() + ".npubin";
}

Json report_json(const CompileResult& result, const std::string& path) {
  const Json all = Json::parse(describe(*result.program, true));
  Json report = {{"program", path}, {"target", all["target"]}, {"dtype", all["dtype"]}, {"methods", Json::object()}};
  for (const auto& [name, method] : all["methods"].items())
    for (const char* key : {"nodes", "kernels", "steps", "weights_bytes", "arena_bytes", "arena_lower_bound_bytes",
                            "fusions", "materialized"})
      report["methods"][name][key] = method[key];
  for (const char* stage : {"import", "passes", "codegen", "plan", "total"}) {
    const auto found = result.seconds.find(stage);
    report["seconds"][stage] = found == result.seconds.end() ? 0.0 : found->second;
  }
  report["notes"] = result.notes;
  return report;
}

std::string report_text(const Json& report) {
  std::string text = fmt::format("{}: target {}, dtype {}, {:.2f} s\n", report["program"].get<std::string>(),
                                 report["target"].get<std::string>(), report["dtype"].get<std::string>(),
                                 report["seconds"]["total"].get<double>());
  for (const auto& [name, m] : report["methods"].items()) {
    std::string fusions;
    for (const auto& [fusion, count] : m["fusions"].items())
      fusions += fmt::format(", {} {}", fusion, count.get<int64_t>());
    text +=
        fmt::format("  {}: {} nodes -> {} kernels -> {} steps, weights {:.1f} MB, arena {:.2f} MB{}\n", printable(name),
                    m["nodes"].get<int64_t>(), m["kernels"].get<int64_t>(), m["steps"].get<int64_t>(),
                    m["weights_bytes"].get<double>() / 1e6, m["arena_bytes"].get<double>() / 1e6, fusions);
  }
  return text;
}

int run(const CLI::App& verb, const Flags& flags) {
  need_one_source(flags.ir, flags.methods);
  const std::string path = output_path(flags);
  if (flags.output.empty()) check_files(verb, {{path, "the default output " + path, true}});
  if (path == "-" && (flags.json || !flags.dump.empty()))
    fail(ErrorKind::usage, "-o - leaves no standard output for {}", flags.json ? "--json" : "--dump");
  const std::vector<MethodSource> methods = method_sources(flags.ir, flags.methods);
  CompileOptions options = compile_options(flags.compile);
  if (flags.text || flags.no_text) options.text = flags.text;
  options.dump_pass = flags.dump;
  options.dump = [&](const std::string& text) {
    if (flags.json)
      std::fputs(printable_lines(text).c_str(), stderr);
    else
      print_report(text);
  };
  CompileResult result;
  {
    Progress progress;
    options.progress = [&](const std::string& stage) { progress.stage(stage); };
    result = compile(methods, options);
    save_program(*result.program, path);
  }
  for (const std::string& note : result.notes) print_note(note);
  if (path == "-") return 0;
  const Json report = report_json(result, path);
  print_report(flags.json ? json_report(report) : report_text(report));
  return 0;
}

}  // namespace

Action add_compile(CLI::App& verb) {
  auto flags = std::make_shared<Flags>();
  add_method_flags(verb, flags->ir, flags->methods);
  add_output(verb, "-o,--output", flags->output, "OUT.npubin", "the program; - is standard output");
  add_compile_flags(verb, flags->compile);
  add_kv_map_flag(verb, flags->compile);
  CLI::Option* text = verb.add_flag("--text", flags->text, "add a method that feeds itself to each for one token");
  verb.add_flag("--no-text", flags->no_text, "do not; default: --text if there are several methods")->excludes(text);
  add_name(verb, "--dump", flags->dump, "PASS", "print the graph after this pass");
  verb.add_flag("--json", flags->json, "report as JSON");
  return [flags, &verb] { return run(verb, *flags); };
}

}  // namespace npusim::cli
