// nlohmann's parser, with limits, and writer.
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

constexpr size_t longest_key = 100;      // of a message
constexpr size_t longest_message = 300;  // bytes; the parser quotes what it read last, however long

// nlohmann's message without its "[json.exception.parse_error.101] ".
std::string message_of(const nlohmann::json::exception& error) {
  std::string_view message = error.what();
  if (const size_t end = message.find("] "); end != std::string_view::npos) message.remove_prefix(end + 2);
  return shortened(message, longest_message);
}

// Makes the value while the text is read, as nlohmann's own parser does. That one, asked to tell keys, goes through all
// members of an object again whenever one of them ends.
class Builder : public nlohmann::json::json_sax_t {
  using Json = nlohmann::json;

 public:
  Builder(Json& root, const std::string& origin, const JsonKeyCheck& check)
      : root_(root), origin_(origin), check_(check) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }  // JSON has none
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (check_) check_(static_cast<int>(open_.size()), key);
    const auto [member, fresh] = open_.back()->emplace(key, nullptr);
    if (!fresh)
      fail(ErrorKind::bad_input, "{}: the key '{}' is there twice in one object", origin_, shortened(key, longest_key));
    member_ = &*member;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    fail(ErrorKind::bad_input, "{}: not JSON: {}", origin_, message_of(error));
  }

 private:
  template <typename T>
  bool put(T&& value) {
    add(std::forward<T>(value));
    return true;
  }
  Json& add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool open(Json value) {
    if (open_.size() == deepest_json)
      fail(ErrorKind::bad_input, "{}: nested deeper than {} levels", origin_, deepest_json);
    open_.push_back(&add(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  const std::string& origin_;
  const JsonKeyCheck& check_;
  std::vector<Json*> open_;  // lists and objects around what comes next
  Json* member_ = nullptr;   // of the innermost, if that is an object: what the last key names
};

template <typename Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin, const JsonKeyCheck& check) {
  refuse_other_kinds(text, FileKind::json, origin);
  // The parser takes a zero byte for the text's end; JSON has none.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail(ErrorKind::bad_input, "{}: not JSON: a zero byte at offset {}", origin, zero);
  nlohmann::json root;
  Builder builder(root, origin, check);
  nlohmann::json::sax_parse(text, &builder);
  return root;
}

std::string_view quote_words(std::string_view text, std::string& storage) {
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
    } else if (c == 'N' || c == 'I') {
      const std::string_view word = c == 'N' ? "NaN" : "Infinity";
      if (text.substr(i, word.size()) != word) continue;
      const size_t begin = i > copied && text[i - 1] == '-' ? i - 1 : i;
      i += word.size() - 1;
      storage.append(text.substr(copied, begin - copied));
      storage.append("\"").append(text.substr(begin, i + 1 - begin)).append("\"");
      copied = i + 1;
    }
  }
  if (!copied) return text;
  storage.append(text.substr(copied));
  return storage;
}

nlohmann::json parse_json_object(std::string_view text, const std::string& origin) {
  nlohmann::json result = parse_json(text, origin);
  if (!result.is_object())
    fail(ErrorKind::bad_input, "{}: expected a JSON object, found {}", origin, json_found(result));
  return result;
}

nlohmann::json read_json_object(const std::string& path) { return parse_json_object(read_file(path), path); }

nlohmann::json read_python_object(const std::string& path) {
  const std::string text = read_file(path);
  std::string storage;
  return parse_json_object(quote_words(text, storage), path);
}

double number_in(const nlohmann::json& value, const JsonRange& range, const std::string& where) {
  const bool right = range.whole ? value.is_number_integer() : value.is_number();
  if (const double number = right ? value.get<double>() : 0; right && number >= range.low && number <= range.high)
    return number;
  fail(ErrorKind::bad_input, "{}: {}: expected {} from {} to {}, found {}", where, range.key,
       range.whole ? "an integer" : "a number", range.low, range.high, json_found(value));
}

std::optional<double> number_member(const nlohmann::json& object, const JsonRange& range, const std::string& where) {
  const auto found = object.find(range.key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return number_in(*found, range, where);
}

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
