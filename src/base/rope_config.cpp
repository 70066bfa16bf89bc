// Types of rotary embeddings.
#include "base/rope_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace npusim {
namespace {

std::string type_in(const nlohmann::json& rope, const std::string& origin) {
  for (const char* key : {"rope_type", "type"}) {
    const auto type = rope.find(key);
    if (type == rope.end() || type->is_null()) continue;
    if (!type->is_string())
      fail(ErrorKind::bad_input, "{}: {} must be a string, found {}", origin, key, json_found(*type));
    return type->get<std::string>();
  }
  for (const auto& [kind, inner] : rope.items())  // one per kind of layer
    if (inner.is_object())
      if (const std::string type = type_in(inner, origin); type != "default") return type;
  return "default";
}

}  // namespace

std::string rope_type(const nlohmann::json& config, const std::string& origin) {
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const auto rope = config.find(key); rope != config.end() && !rope->is_null()) {
      if (!rope->is_object())
        fail(ErrorKind::bad_input, "{}: {}: expected an object, found {}", origin, key, json_found(*rope));
      if (std::string type = type_in(*rope, origin); type != "default") return type;
    }
  for (const char* key : {"text_config", "llm_config", "language_config"})
    if (const auto inner = config.find(key); inner != config.end() && inner->is_object())
      if (std::string type = rope_type(*inner, origin); type != "default") return type;
  return "default";
}

bool is_unscaled_rope(const std::string& type) { return type == "default" || type == "linear" || type == "llama3"; }

}  // namespace npusim
