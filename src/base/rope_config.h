// What a Hugging Face config.json says of rotary embeddings.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace npusim {

// The first type of rotary embedding that is not the default one, of any kind of layer; "default" if there is none.
// Throws bad_input (of `origin`) where the type is no string.
std::string rope_type(const nlohmann::json& config, const std::string& origin);
// Whether cos and sin are those of the angles, unscaled: only the frequencies differ between such types.
bool is_unscaled_rope(const std::string& type);

}  // namespace npusim
