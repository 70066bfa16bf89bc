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

}  // namespace

npusim_status npusim_compile(const npusim_method_source* methods, size_t count, const npusim_compile_options* options,
                             npusim_program** program, npusim_error** error) {
  return guarded(error, [&] {
    npusim_program*& out = result(program, "program");
    if (count > 0 && !methods) refuse("methods is NULL");
    const npusim_compile_options asked = options_of(options);
    CompileOptions chosen;
    chosen.target = text_or(asked.target, "cpu");
    chosen.dtype = text_or(asked.dtype, "auto");
    chosen.strict = asked.strict != 0;
    if (asked.text != 0) chosen.text = asked.text > 0;
    chosen.config = {text_or(asked.config_path, ""), text_or(asked.config_json, "")};
    chosen.kv_map = {text_or(asked.kv_map_path, ""), text_or(asked.kv_map_json, "")};
    chosen.plan = {text_or(asked.plan_path, ""), text_or(asked.plan_json, "")};
    chosen.budget = {asked.max_bytes, asked.max_flops};
    chosen.disabled_fusions = names_of(asked.disabled_fusions);
    chosen.force_cpu = names_of(asked.force_cpu);
    chosen.fallback = asked.no_fallback == 0;
    std::vector<MethodSource> sources;
    for (size_t i = 0; i < count; ++i) {
      const npusim_method_source& source = methods[i];
      if (!source.path && !source.json) refuse("a method has neither a path nor JSON");
      sources.push_back({text_or(source.name, "main"), text_or(source.path, "memory"), text_or(source.json, "")});
    }
    if (sources.empty()) refuse("there is no method to compile");
    out = make_program(compile(sources, chosen).program);
  });
}
