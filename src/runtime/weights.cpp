// Resolution of weight names and conversion to the dtype the program declares.
#include "runtime/weights.h"

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

// rope_theta of a config, and the number of rotated elements per head; false for scalings, which are not computed here
// (W-21).
bool read_rope(const nlohmann::json& config, double& theta, int64_t& width) {
  const nlohmann::json* rope = config.contains("rope_parameters") ? &config["rope_parameters"]
                               : config.contains("rope_scaling")  ? &config["rope_scaling"]
                                                                  : nullptr;
  if (rope_type(config, "config.json") != "default") return false;
  if (config.contains("rope_theta"))
    theta = config["rope_theta"].get<double>();
  else if (rope && rope->is_object() && rope->contains("rope_theta"))
    theta = (*rope)["rope_theta"].get<double>();
  else
    return false;
  if (config.contains("head_dim") && config["head_dim"].is_number())
    width = config["head_dim"].get<int64_t>();
  else if (config.contains("hidden_size") && config.contains("num_attention_heads"))
    width = config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>();
  else
    return false;
  return true;
}

}  // namespace

const TensorView* find_program_weight(const TensorSet& weights, const Buffer& buffer) {
  if (const TensorView* found = find_with_prefixes(weights, buffer.fqn)) return found;
  for (const std::string& other : buffer.tied)
    if (const TensorView* found = find_with_prefixes(weights, other)) return found;
  return nullptr;
}

std::optional<HostTensor> rotary_frequencies(const TensorSet& weights, const Buffer& buffer) {
  if (!buffer.fqn.ends_with("inv_freq") || buffer.type.shape.size() != 1) return std::nullopt;
  if (weights.from_memory) return std::nullopt;
  const auto path = std::filesystem::path(weights.path).parent_path() / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const auto config = read_json_object(path.string());
  double theta = 0;
  int64_t width = 0;
  try {
    if (!read_rope(config, theta, width)) return std::nullopt;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::bad_input, "{}: {}", path.string(), error.what());
  }
  if (width != 2 * buffer.type.shape[0]) return std::nullopt;
  HostTensor tensor = make_tensor({DType::f32, buffer.type.shape});
  auto* values = reinterpret_cast<float*>(tensor.data.data());
  for (int64_t i = 0; i < buffer.type.shape[0]; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
    values[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
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
    if (!located.made)
      problem("{} is not in {}", to_string(buffer.type), weights ? weights->path : "any weight file: none was given");
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
