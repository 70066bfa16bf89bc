// TargetConfig as JSON: every field of the struct under its own name, within its range.
#include "compiler/read_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "npusim/message.h"
#include "program/config_ranges.h"

namespace npusim {

void read_config(const JsonSource& source, TargetConfig& config) {
  const std::string path = source.path.empty() ? "config" : source.path;
  const auto json = source.json.empty() ? read_json_object(path) : parse_json_object(source.json, path);
  for (const auto& [key, value] : json.items()) {
    if (key == "name") {
      if (!value.is_string()) fail(ErrorKind::bad_input, "{}: name must be a string", path);
      continue;  // the target's own name stays: it decides which backend runs the program
    }
    if (key == "image_layout") {
      if (value == "channels_last")
        config.image_layout = ImageLayout::channels_last;
      else if (value == "channels_first")
        config.image_layout = ImageLayout::channels_first;
      else
        fail(ErrorKind::bad_input, "{}: image_layout must be channels_last or channels_first, found {}", path,
             json_text(value));
      continue;
    }
    if (key == "pad_channels") {
      if (!value.is_boolean())
        fail(ErrorKind::bad_input, "{}: pad_channels must be true or false, found {}", path, json_text(value));
      config.pad_channels = value.get<bool>();
      continue;
    }
    const auto known = config_ranges();
    const auto range = std::find_if(known.begin(), known.end(),
                                    [name = std::string_view(key)](const ConfigRange& r) { return r.key == name; });
    if (range == known.end()) {
      std::vector<std::string> names = {"name", "image_layout", "pad_channels"};
      for (const ConfigRange& r : known) names.emplace_back(r.key);
      fail(ErrorKind::bad_input, "{}: unknown field {}: expected {}{}", path, key, fmt::join(names, ", "),
           did_you_mean(key, names));
    }
    const JsonRange ends = {range->key, static_cast<double>(range->low), static_cast<double>(range->high)};
    const auto number = static_cast<int64_t>(number_in(value, ends, path));
    if (const std::string problem = range_problem(*range, number); !problem.empty())
      fail(ErrorKind::bad_input, "{}: {}", path, problem);
    config.*range->member = number;
  }
}

}  // namespace npusim
