// Values of a tokenizer.json and where they stand, for readers whose errors name the place.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace npusim::bpe {

// A value of the file and where it stands, such as "model.vocab".
struct Field {
  const nlohmann::json& value;
  const std::string& origin;
  std::string path;
};

std::string where(const Field& field);
[[noreturn]] void expected(const Field& field, std::string_view what);
[[noreturn]] void unsupported(const Field& field, std::string_view supported);

// The member of an object; a missing one reads as null.
Field member(const Field& object, const std::string& key);
std::vector<Field> elements(const Field& array);
const std::string& string(const Field& field);
bool boolean(const Field& field, bool otherwise);

}  // namespace npusim::bpe
