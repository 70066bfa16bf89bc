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
namespace {

int64_t integer(const nlohmann::json& value, const std::string& key, int64_t low, int64_t high,
                const std::string& path) {
  const JsonRange ends = {key.c_str(), static_cast<double>(low), static_cast<double>(high)};
  return static_cast<int64_t>(number_in(value, ends, path));
}

[[noreturn]] void refuse_key(const std::string& key, const std::vector<std::string>& names, const std::string& path,
                             std::string_view where) {
  fail(ErrorKind::bad_input, "{}: unknown field {}{}: expected {}{}", path, where, key,
       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")), did_you_mean(key, names));
}

// Whether the key is one of these numbers, which then is set.
template <typename Of>
bool read_number(std::span<const ConfigRange<Of>> ranges, const std::string& key, const nlohmann::json& value, Of& of,
                 const std::string& path) {
  const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const auto& r) { return r.key == key; });
  if (range == ranges.end()) return false;
  const int64_t number = integer(value, key, range->low, range->high, path);
  if (const std::string problem = range_problem(*range, number); !problem.empty())
    fail(ErrorKind::bad_input, "{}: {}", path, problem);
  of.*range->member = number;
  return true;
}

void read_flag(const nlohmann::json& value, const std::string& key, const std::string& path, bool& flag) {
  if (!value.is_boolean())
    fail(ErrorKind::bad_input, "{}: {} must be true or false, found {}", path, key, json_text(value));
  flag = value.get<bool>();
}

void read_layout(const nlohmann::json& value, const std::string& path, ImageLayout& layout) {
  if (value == "channels_last")
    layout = ImageLayout::channels_last;
  else if (value == "channels_first")
    layout = ImageLayout::channels_first;
  else
    fail(ErrorKind::bad_input, "{}: image_layout must be channels_last or channels_first, found {}", path,
         json_text(value));
}

void check_object(const nlohmann::json& value, std::string_view key, const std::string& path) {
  if (!value.is_object()) fail(ErrorKind::bad_input, "{}: {} must be an object, found {}", path, key, json_text(value));
}

void read_machine(const nlohmann::json& json, const std::string& path, Machine& machine) {
  check_object(json, "machine", path);
  std::vector<std::string> names;
  for (const ConfigRange<Machine>& range : machine_ranges()) names.emplace_back(range.key);
  for (const auto& [key, value] : json.items())
    if (!read_number(machine_ranges(), key, value, machine, path)) refuse_key(key, names, path, "machine.");
}

void read_own(const nlohmann::json& json, std::span<const OwnRange> ranges, const std::string& path,
              std::map<std::string, int64_t>& own) {
  check_object(json, "own", path);
  std::vector<std::string> names;
  for (const OwnRange& range : ranges) names.push_back(range.key);
  for (const auto& [key, value] : json.items()) {
    const auto range =
        std::find_if(ranges.begin(), ranges.end(), [&name = key](const OwnRange& r) { return r.key == name; });
    if (range == ranges.end()) refuse_key(key, names, path, "own.");
    const int64_t number = integer(value, key, range->low, range->high, path);
    if (const std::string problem = range_problem(key.c_str(), number, range->low, range->high); !problem.empty())
      fail(ErrorKind::bad_input, "{}: {}", path, problem);
    own[key] = number;
  }
}

}  // namespace

void read_config(const JsonSource& source, std::span<const OwnRange> own, TargetConfig& config) {
  const std::string path = source.path.empty() ? "config" : source.path;
  const auto json = source.json.empty() ? read_json_object(path) : parse_json_object(source.json, path);
  std::vector<std::string> names = {"name", "image_layout", "pad_channels", "equal_operands", "machine", "own"};
  for (const ConfigRange<TargetConfig>& range : config_ranges()) names.emplace_back(range.key);
  for (const auto& [key, value] : json.items()) {
    if (key == "name") {
      // The target's own name stays: it decides which backend runs the program.
      if (!value.is_string()) fail(ErrorKind::bad_input, "{}: name must be a string", path);
    } else if (key == "image_layout") {
      read_layout(value, path, config.image_layout);
    } else if (key == "pad_channels") {
      read_flag(value, key, path, config.pad_channels);
    } else if (key == "equal_operands") {
      read_flag(value, key, path, config.equal_operands);
    } else if (key == "machine") {
      read_machine(value, path, config.machine);
    } else if (key == "own") {
      read_own(value, own, path, config.own);
    } else if (!read_number(config_ranges(), key, value, config, path)) {
      const auto is_key = [&name = key](const ConfigRange<Machine>& r) { return r.key == name; };
      if (std::any_of(machine_ranges().begin(), machine_ranges().end(), is_key))
        fail(ErrorKind::bad_input, "{}: {} is a field of machine: expected {{\"machine\": {{\"{}\": {}}}}}", path, key,
             key, json_text(value));
      refuse_key(key, names, path, "");
    }
  }
}

}  // namespace npusim
