// JSON text, read and written in one place: errors name the origin, and one file pays for the parser's templates.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace npusim {

// Called with every key, in the order of the text; keys of the root have depth 1.
using JsonKeyCheck = std::function<void(int depth, const std::string& key)>;

// Lists and objects within each other: far more than any file that npusim reads has, and few enough for whatever walks
// them by recursion.
inline constexpr size_t deepest_json = 100;

// Fails with bad_input "<origin>: not JSON: <what and where>", for numbers beyond double's range too, and
// "<origin>: nested deeper than …". In time and memory linear in the text.
nlohmann::json parse_json(std::string_view text, const std::string& origin, const JsonKeyCheck& check = {});
// One object, and a file that holds one.
nlohmann::json parse_json_object(std::string_view text, const std::string& origin);
nlohmann::json read_json_object(const std::string& path);
// Python writes NaN, Infinity and -Infinity as bare words, which JSON lacks: here they are strings. `storage` holds the
// text that has been changed.
std::string_view quote_words(std::string_view text, std::string& storage);
// A file that Python may have written, as models' config.json.
nlohmann::json read_python_object(const std::string& path);

// What a number of a file may be, both ends included.
struct JsonRange {
  const char* key;
  double low, high;
  bool whole = true;  // an integer
};
// The number; fails with bad_input "<where>: <key>: expected …, found …".
double number_in(const nlohmann::json& value, const JsonRange& range, const std::string& where);
// The same of an object's member; nullopt where that is missing or null.
std::optional<double> number_member(const nlohmann::json& object, const JsonRange& range, const std::string& where);

// One line, or lines indented by `indent`. Bytes that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);
// What was found, for a message: a number's value, else the kind of JSON value.
std::string json_found(const nlohmann::json& value);
// In double quotes, as one printable line.
std::string json_quoted(std::string_view text);

// Fails with bad_input at the first key of an object that is none of `known`: what nobody reads was meant to say
// something.
void refuse_unknown_keys(const nlohmann::json& object, std::initializer_list<const char*> known,
                         const std::string& where);

}  // namespace npusim
