// Reading of attribute values and constant data.
#include "graph/attrs.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) { return shortened(json_text(value), 80); }

[[noreturn]] void expected(std::string_view what, const Json& found) {
  fail(ErrorKind::bad_input, "expected {}, found {}", what, shown(found));
}

double special_number(std::string_view text) {
  const bool negative = text.front() == '-';
  if (negative) text.remove_prefix(1);
  const double value = text == "NaN" || text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                                                      : std::numeric_limits<double>::infinity();
  return negative ? -value : value;
}

bool holds_special_number(const Json& value) {
  return value.is_string() && is_special_number(value.get_ref<const std::string&>());
}

int64_t read_int(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() >> 63) expected("an integer of 64 bits", value);
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == static_cast<double>(to_integer(number))) return to_integer(number);
  }
  expected("an integer", value);
}

double read_real(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>();
  if (holds_special_number(value)) return special_number(value.get_ref<const std::string&>());
  expected("a number", value);
}

bool read_bool(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer() && (value == 0 || value == 1)) return value == 1;
  expected("true or false", value);
}

// A number of the kind it was written as; Python writes complex numbers as "(1+2j)".
Attr read_scalar(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return read_int(value);
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.find('j') != std::string::npos && text.find_first_of("0123456789") != std::string::npos)
      fail(ErrorKind::unsupported, "complex number {}", shown(value));
  }
  return read_real(value);
}

DType read_dtype(const Json& value) {
  if (!value.is_string()) expected("a dtype", value);
  if (const auto dtype = parse_dtype(value.get_ref<const std::string&>())) return *dtype;
  fail(ErrorKind::unsupported, "dtype {}", shown(value));
}

// A list, or one element standing for `size` equal ones.
template <typename T, typename Read>
Attr read_list(const Json& value, int size, Read read) {
  std::vector<T> list;
  if (value.is_array())
    for (const Json& element : value) list.push_back(read(element));
  else
    list.assign(static_cast<size_t>(std::max(size, 1)), read(value));
  return list;
}

// Appends the elements of nested lists; `depth` lists enclose them.
void flatten(const Json& data, size_t depth, const Shape& shape, bool flat, HostTensor& tensor, int64_t& count) {
  if (data.is_array()) {
    if (!flat && (depth >= shape.size() || data.size() != static_cast<size_t>(shape[depth])))
      fail(ErrorKind::bad_input, "expected data of shape {}, found a list of {} at depth {}", to_string(shape),
           data.size(), depth);
    for (const Json& element : data) flatten(element, depth + 1, shape, flat, tensor, count);
    return;
  }
  if (count >= element_count(shape) || (!flat && depth != shape.size()))
    fail(ErrorKind::bad_input, "expected data of shape {}, found a number at depth {}", to_string(shape), depth);
  const DType dtype = tensor.type.dtype;
  if (is_float(dtype)) {
    store_double(tensor.data.data(), dtype, count++, read_real(data));
  } else {
    const int64_t number = read_int(data);
    if (wrap_through(dtype, number) != number)
      fail(ErrorKind::bad_input, "{} is out of range for {}", number, dtype_name(dtype));
    store_int(tensor.data.data(), dtype, count++, number);
  }
}

// A number for each element is the least a constant can be written with.
size_t element_bound(const Json& data) {
  if (!data.is_array()) return 1;
  size_t bound = 0;
  for (const Json& element : data) bound += element_bound(element);
  return bound;
}

}  // namespace

bool is_special_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text == "NaN" || text == "nan" || text == "Infinity" || text == "inf";
}

Attr read_attr(const Json& value, const SchemaArg& arg) {
  if (value.is_null()) {
    if (arg.optional || arg.kind == ArgKind::memory_format || arg.kind == ArgKind::ignored) return std::monostate{};
    if (arg.has_default) return default_attr(arg);
    expected("a value", value);
  }
  switch (arg.kind) {
    case ArgKind::boolean:
      return read_bool(value);
    case ArgKind::integer:
      return read_int(value);
    case ArgKind::real:
      return read_real(value);
    case ArgKind::tensor:
    case ArgKind::scalar:
      return read_scalar(value);
    case ArgKind::text:
      if (!value.is_string()) expected("a string", value);
      return value.get<std::string>();
    case ArgKind::memory_format:
      return value.is_string() ? Attr(value.get<std::string>()) : Attr{};
    case ArgKind::dtype:
      return read_dtype(value);
    case ArgKind::int_list:
      return read_list<int64_t>(value, arg.list_size, read_int);
    case ArgKind::real_list:
      return read_list<double>(value, arg.list_size, read_real);
    case ArgKind::bool_list:
      return read_list<bool>(value, arg.list_size, read_bool);
    default:
      return std::monostate{};
  }
}

Attr default_attr(const SchemaArg& arg) {
  if (arg.kind == ArgKind::ignored || !arg.has_default) return std::monostate{};
  const Attr& value = arg.default_value;
  const auto size = static_cast<size_t>(std::max(arg.list_size, 1));
  if (arg.kind == ArgKind::int_list)
    if (const int64_t* number = std::get_if<int64_t>(&value)) return std::vector<int64_t>(size, *number);
  if (arg.kind == ArgKind::real_list)
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      return std::vector<double>(list->begin(), list->end());
  if (arg.kind == ArgKind::bool_list)
    if (const bool* flag = std::get_if<bool>(&value)) return std::vector<bool>(size, *flag);
  return value;
}

HostTensor read_constant(const Json& data, const TensorType& type) {
  const int64_t elements = element_count(type.shape);
  const size_t found = element_bound(data);
  if (found != static_cast<size_t>(elements))
    fail(ErrorKind::bad_input, "expected {} numbers for {}, found {}", elements, to_string(type), found);
  HostTensor tensor = make_tensor(type);
  if (!elements) return tensor;  // the extents of lists that hold no number are lost
  int64_t count = 0;
  const bool flat = data.is_array() && !data.front().is_array();
  flatten(data, 0, type.shape, flat || !data.is_array(), tensor, count);
  return tensor;
}

}  // namespace npusim
