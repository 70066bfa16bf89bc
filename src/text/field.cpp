// Reading values of a tokenizer.json.
#include "text/field.h"

#include "base/error.h"
#include "base/json.h"

namespace npusim::bpe {
namespace {

using nlohmann::json;

const json missing_value = nullptr;

}  // namespace

std::string where(const Field& field) { return field.path.empty() ? field.origin : field.origin + ": " + field.path; }

void expected(const Field& field, std::string_view what) {
  fail(ErrorKind::bad_input, "{}: expected {}, found {}", where(field), what, json_found(field.value));
}

void unsupported(const Field& field, std::string_view supported) {
  fail(ErrorKind::unsupported, "{}: {} is not supported (supported: {})", where(field),
       field.value.is_string() ? json_quoted(field.value.get_ref<const std::string&>())
                               : (field.value.is_primitive() ? json_text(field.value) : field.value.type_name()),
       supported);
}

Field member(const Field& object, const std::string& key) {
  if (!object.value.is_object()) expected(object, "an object");
  const auto it = object.value.find(key);
  return {it == object.value.end() ? missing_value : *it, object.origin,
          object.path.empty() ? key : object.path + "." + key};
}

std::vector<Field> elements(const Field& array) {
  if (!array.value.is_array()) expected(array, "an array");
  std::vector<Field> result;
  for (size_t i = 0; i < array.value.size(); ++i)
    result.push_back({array.value[i], array.origin, fmt::format("{}[{}]", array.path, i)});
  return result;
}

const std::string& string(const Field& field) {
  if (!field.value.is_string()) expected(field, "a string");
  return field.value.get_ref<const std::string&>();
}

bool boolean(const Field& field, bool otherwise) {
  if (field.value.is_null()) return otherwise;
  if (!field.value.is_boolean()) expected(field, "true or false");
  return field.value.get<bool>();
}

}  // namespace npusim::bpe
