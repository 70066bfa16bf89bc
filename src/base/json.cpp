// nlohmann's parser and writer.
#include "base/json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/utf8.h"
#include "npusim/message.h"

namespace npusim {
namespace {

constexpr size_t longest_message = 300;  // bytes; the parser quotes what it read last, however long

// nlohmann's message without its "[json.exception.parse_error.101] ".
std::string message_of(const nlohmann::json::exception& error) {
  std::string_view message = error.what();
  if (const size_t end = message.find("] "); end != std::string_view::npos) message.remove_prefix(end + 2);
  return shortened(message, longest_message);
}

template <typename Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin, const JsonKeyCheck& check) {
  using Json = nlohmann::json;
  const auto on_key = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key) check(depth, parsed.get_ref<const std::string&>());
    return true;
  };
  refuse_other_kinds(text, FileKind::json, origin);
  try {
    return check ? Json::parse(text, on_key) : Json::parse(text);
  } catch (const Json::exception& error) {
    fail(ErrorKind::bad_input, "{}: not JSON: {}", origin, message_of(error));
  }
}

nlohmann::json parse_json_object(std::string_view text, const std::string& origin) {
  nlohmann::json result = parse_json(text, origin);
  if (!result.is_object())
    fail(ErrorKind::bad_input, "{}: expected a JSON object, found {}", origin, json_found(result));
  return result;
}

nlohmann::json read_json_object(const std::string& path) { return parse_json_object(read_file(path), path); }

std::string json_text(const nlohmann::json& value, int indent) { return text_of(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return text_of(value, indent); }
std::string json_found(const nlohmann::json& value) { return value.is_number() ? json_text(value) : value.type_name(); }
std::string json_quoted(std::string_view text) { return json_text(nlohmann::json(text)); }

void refuse_unknown_keys(const nlohmann::json& object, std::initializer_list<const char*> known,
                         const std::string& where) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(ErrorKind::bad_input, "{}: unknown key {}: expected {}{}", where, json_quoted(key), fmt::join(known, ", "),
           did_you_mean(key, known));
}

}  // namespace npusim
