// The C interface to the compiler.
#include <algorithm>
#include <set>
#include <string_view>

#include "c/handles.h"
#include "npusim/compiler.h"

using namespace npusim;
using namespace npusim::c;

namespace {

// "one,another"
std::set<std::string> names_of(const char* list) {
  std::set<std::string> names;
  for (std::string_view rest = list ? list : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    names.emplace(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

// A file or its text, where either is given; neither may be empty.
JsonSource source_of(const char* path, const char* json, const std::string& name) {
  if (path && !*path) refuse(name + "_path: expected the name of a file, found an empty one");
  if (json && !*json) throw Error(ErrorKind::bad_input, name + "_json: expected JSON, found nothing");
  return {text_or(path, json ? (name + "_json").c_str() : ""), text_or(json, "")};
}

MethodSource source_of(const npusim_method_source& source) {
  if (!source.path && !source.json) refuse("a method has neither a path nor JSON");
  const std::string where = text_or(source.path, "memory");
  if (source.json && !*source.json) throw Error(ErrorKind::bad_input, where + ": expected IR JSON, found nothing");
  return {text_or(source.name, "main"), where, text_or(source.json, "")};
}

}  // namespace

npusim_status npusim_compile(const npusim_method_source* methods, size_t count, const npusim_compile_options* options,
                             npusim_program** program, npusim_error** error) {
  return guarded(error, [&] {
    npusim_program*& out = result(program, "program");
    check_array(methods, count, most_methods, "methods");
    const npusim_compile_options asked = options_of(options);
    CompileOptions chosen;
    chosen.target = text_or(asked.target, "cpu");
    chosen.dtype = text_or(asked.dtype, "auto");
    chosen.strict = asked.strict != 0;
    if (asked.text != 0) chosen.text = asked.text > 0;
    chosen.config = source_of(asked.config_path, asked.config_json, "config");
    chosen.kv_map = source_of(asked.kv_map_path, asked.kv_map_json, "kv_map");
    chosen.plan = source_of(asked.plan_path, asked.plan_json, "plan");
    chosen.budget = {asked.max_bytes, asked.max_flops};
    chosen.disabled_fusions = names_of(asked.disabled_fusions);
    chosen.force_cpu = names_of(asked.force_cpu);
    chosen.fallback = asked.no_fallback == 0;
    std::vector<MethodSource> sources;
    for (size_t i = 0; i < count; ++i) sources.push_back(source_of(methods[i]));
    if (sources.empty()) refuse("there is no method to compile");
    out = make_program(compile(sources, chosen).program);
  });
}
