// The C interface to the compiler.
#include <algorithm>
#include <string_view>

#include "c/handles.h"
#include "npusim/compiler.h"

using namespace npusim;
using namespace npusim::c;

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
    for (std::string_view rest = asked.disabled_fusions ? asked.disabled_fusions : ""; !rest.empty();) {
      const size_t end = std::min(rest.find(','), rest.size());
      chosen.disabled_fusions.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
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
