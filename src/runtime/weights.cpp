// Resolution of weight names and conversion to the dtype the program declares.
#include "runtime/weights.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fit.h"
#include "base/json.h"
#include "base/rope_config.h"

namespace npusim {
namespace {

const TensorView* find_with_prefixes(const TensorSet& weights, std::string_view name) {
  std::vector<std::string> names = {std::string(name)};
  for (std::string_view rest = name; rest.starts_with("model.");) {
    rest.remove_prefix(6);
    names.emplace_back(rest);
  }
  names.push_back("model." + std::string(name));
  for (const auto find : {find_tensor, find_bare_tensor})
    for (const std::string& one : names)
      if (const TensorView* found = find(weights, one)) return found;
  return nullptr;
}

// What is read of a config.json, and what it may be.
constexpr JsonRange theta_range = {"rope_theta", 1, 1e30, false};
constexpr JsonRange head_range = {"head_dim", 1, 1 << 24};
constexpr JsonRange hidden_range = {"hidden_size", 1, 1 << 24};
constexpr JsonRange heads_range = {"num_attention_heads", 1, 1 << 24};

struct Rope {
  double theta = 0;
  int64_t width = 0;  // rotated elements per head
};

// Whether there is more than one table, as of layers that look near and far, or one of a part of each head.
bool has_other_tables(const nlohmann::json& config) {
  const auto is_one = [](const nlohmann::json& value) { return value.is_number() && value.get<double>() == 1; };
  const auto partial = [&](const nlohmann::json& in) {
    const auto factor = in.find("partial_rotary_factor");
    return factor != in.end() && !factor->is_null() && !is_one(*factor);
  };
  bool found = partial(config);
  for (const auto& [name, value] : config.items())  // rope_local_base_freq, local_rope_theta
    found = found ||
            (name.find("local") != std::string::npos && name.find("rope") != std::string::npos && !value.is_null());
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const auto rope = config.find(key); rope != config.end() && rope->is_object())
      found = found || partial(*rope) ||
              std::any_of(rope->begin(), rope->end(), [](const auto& v) { return v.is_object(); });
  return found;
}

// Nothing for scalings and tables of layers, which are not computed here, and for a config that does not tell, or tells
// two things.
std::optional<Rope> read_rope(const nlohmann::json& config, const std::string& where) {
  if (rope_type(config, where) != "default" || has_other_tables(config)) return std::nullopt;
  std::optional<double> theta = number_member(config, theta_range, where);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = config.find(key);
    if (rope == config.end() || !rope->is_object()) continue;
    const std::optional<double> other = number_member(*rope, theta_range, where + ": " + key);
    if (theta && other && *theta != *other) return std::nullopt;
    theta = theta ? theta : other;
  }
  std::optional<double> width = number_member(config, head_range, where);
  const std::optional<double> hidden = number_member(config, hidden_range, where);
  const std::optional<double> heads = number_member(config, heads_range, where);
  if (!width && hidden && heads) width = std::floor(*hidden / *heads);
  if (!theta || !width) return std::nullopt;
  return Rope{*theta, static_cast<int64_t>(*width)};
}

}  // namespace

const TensorView* find_program_weight(const TensorSet& weights, const Buffer& buffer) {
  if (const TensorView* found = find_with_prefixes(weights, buffer.fqn)) return found;
  for (const std::string& other : buffer.tied)
    if (const TensorView* found = find_with_prefixes(weights, other)) return found;
  return nullptr;
}

std::optional<HostTensor> rotary_frequencies(const TensorSet& weights, const Buffer& buffer) {
  const std::string_view name = std::string_view(buffer.fqn).substr(buffer.fqn.rfind('.') + 1);
  if (name != "inv_freq" || buffer.type.shape.size() != 1) return std::nullopt;  // others are of some layers
  if (weights.from_memory) return std::nullopt;
  const auto path = std::filesystem::path(weights.path).parent_path() / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return std::nullopt;
  const std::optional<Rope> rope = read_rope(read_python_object(path.string()), path.string());
  if (!rope || rope->width != 2 * buffer.type.shape[0]) return std::nullopt;
  HostTensor tensor = make_tensor({DType::f32, buffer.type.shape});
  auto* values = reinterpret_cast<float*>(tensor.data.data());
  for (int64_t i = 0; i < buffer.type.shape[0]; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope->width);
    values[i] = 1.0f / static_cast<float>(std::pow(rope->theta, static_cast<double>(exponent)));
  }
  return tensor;
}

LocatedWeight locate_weight(const TensorSet* weights, const Buffer& buffer, std::vector<Problem>& problems) {
  LocatedWeight located;
  located.declared = buffer.type.dtype;
  const auto problem = [&]<typename... Args>(fmt::format_string<const Args&...> format, const Args&... args) {
    problems.push_back({"weight " + buffer.fqn, fmt::format(format, args...)});
  };
  const TensorView* found = weights ? find_program_weight(*weights, buffer) : nullptr;
  if (!found) {
    if (weights) located.made = rotary_frequencies(*weights, buffer);
    const bool rotary = buffer.fqn.ends_with("inv_freq") && weights && !weights->from_memory;
    const char* why =
        rotary ? ": rotary frequencies are computed where a config.json beside it has one rope_theta, unscaled, "
                 "and head_dim; else add them to the file"
               : "";
    if (!located.made)
      problem("{} is not in {}{}", to_string(buffer.type), weights ? weights->path : "any weight file: none was given",
              why);
    return located;
  }
  if (found->type.shape != buffer.type.shape)
    problem("expected {}, found {} in {}", to_string(buffer.type.shape), to_string(found->type.shape), weights->path);
  else if (is_float(found->type.dtype) != is_float(located.declared))
    problem("expected {}, found {} in {}", dtype_name(located.declared), dtype_name(found->type.dtype), weights->path);
  else if (const auto misfit = refuse_integers(*found, located.declared))
    problem("{} (in {}, {})", *misfit, weights->path, dtype_name(found->type.dtype));
  else
    located.file = found;
  return located;
}

HostTensor make_weight(LocatedWeight located, const Buffer& buffer) {
  if (!located.made) return convert_tensor(*located.file, buffer.type.dtype);
  if (located.made->type.dtype == buffer.type.dtype) return std::move(*located.made);
  return convert_tensor(view_of(*located.made), buffer.type.dtype);
}

}  // namespace npusim
