// TargetConfig as JSON: every field of the struct under its own name.
#include "compiler/read_config.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "npusim/message.h"

namespace npusim {
namespace {

constexpr int64_t largest_channels = 65536;  // of a tile, or bytes of an alignment

}  // namespace

void read_config(const JsonSource& source, TargetConfig& config) {
  const std::string path = source.path.empty() ? "config" : source.path;
  const auto json = source.json.empty() ? read_json_object(path) : parse_json_object(source.json, path);
  const std::map<std::string, int64_t*> numbers{{"channel_alignment_bytes", &config.channel_alignment_bytes},
                                                {"channel_tile", &config.channel_tile},
                                                {"buffer_alignment_bytes", &config.buffer_alignment_bytes},
                                                {"max_rank", &config.max_rank},
                                                {"memory_gb_s", &config.memory_gb_s},
                                                {"gflop_s", &config.gflop_s},
                                                {"link_gb_s", &config.link_gb_s},
                                                {"link_us", &config.link_us}};
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
    const auto field = numbers.find(key);
    if (field == numbers.end()) {
      std::vector<std::string> names = {"name", "image_layout", "pad_channels"};
      for (const auto& [name, number] : numbers) names.push_back(name);
      fail(ErrorKind::bad_input, "{}: unknown field {}: expected {}{}", path, key, fmt::join(names, ", "),
           did_you_mean(key, names));
    }
    if (!value.is_number_integer() || value.get<int64_t>() < 0)
      fail(ErrorKind::bad_input, "{}: {} must be a non-negative integer, found {}", path, key, json_text(value));
    *field->second = value.get<int64_t>();
  }
  if (config.channel_alignment_bytes < 1 || config.channel_alignment_bytes > largest_channels)
    fail(ErrorKind::bad_input, "{}: channel_alignment_bytes must be 1 to {}, found {}", path, largest_channels,
         config.channel_alignment_bytes);
  if (config.channel_tile > largest_channels)
    fail(ErrorKind::bad_input, "{}: channel_tile must be 0 to {}, found {}", path, largest_channels,
         config.channel_tile);
  if (config.max_rank < 1) fail(ErrorKind::bad_input, "{}: max_rank must be at least 1", path);
  for (const char* rate : {"memory_gb_s", "gflop_s", "link_gb_s"})
    if (*numbers.at(rate) < 1) fail(ErrorKind::bad_input, "{}: {} must be at least 1", path, rate);
  if (config.buffer_alignment_bytes < 1 || (config.buffer_alignment_bytes & (config.buffer_alignment_bytes - 1)))
    fail(ErrorKind::bad_input, "{}: buffer_alignment_bytes must be a power of two", path);
}

}  // namespace npusim
