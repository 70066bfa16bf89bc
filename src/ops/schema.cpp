// The parser of ATen schema text.
#include "ops/schema.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace npusim {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits at commas outside brackets.
std::vector<std::string_view> split(std::string_view s) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == ',' && depth == 0)) {
      if (auto part = trim(s.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
      begin = i + 1;
    } else if (s[i] == '(' || s[i] == '[') {
      ++depth;
    } else if (s[i] == ')' || s[i] == ']') {
      --depth;
    }
  }
  return parts;
}

ArgKind kind_of(std::string_view type, bool list) {
  if (type == "Tensor") return list ? ArgKind::tensor_list : ArgKind::tensor;
  if (type == "int" || type == "SymInt") return list ? ArgKind::int_list : ArgKind::integer;
  if (type == "float") return list ? ArgKind::real_list : ArgKind::real;
  if (type == "bool") return list ? ArgKind::bool_list : ArgKind::boolean;
  if (type == "Scalar") return list ? ArgKind::real_list : ArgKind::scalar;
  if (type == "str") return ArgKind::text;
  if (type == "ScalarType") return ArgKind::dtype;
  if (type == "MemoryFormat") return ArgKind::memory_format;
  return ArgKind::ignored;
}

Attr default_of(std::string_view text, ArgKind kind) {
  if (text == "None") return std::monostate{};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "Mean") return int64_t{1};
  if (kind == ArgKind::memory_format) return std::monostate{};  // ATen's numbers say nothing here
  if (kind == ArgKind::text || kind == ArgKind::ignored) {
    if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'')) text = text.substr(1, text.size() - 2);
    return std::string(text);
  }
  if (text.front() == '[') {
    std::vector<int64_t> ints;
    std::vector<bool> bools;
    for (auto part : split(text.substr(1, text.size() - 2))) {
      if (kind == ArgKind::bool_list)
        bools.push_back(part == "True");
      else
        ints.push_back(std::atoll(std::string(part).c_str()));
    }
    if (kind == ArgKind::bool_list) return bools;
    return ints;
  }
  if (text.find_first_of(".e") != std::string_view::npos || kind == ArgKind::real)
    return std::strtod(std::string(text).c_str(), nullptr);
  return static_cast<int64_t>(std::atoll(std::string(text).c_str()));
}

SchemaArg parse_arg(std::string_view text) {
  SchemaArg arg;
  const size_t space = text.rfind(' ', text.find('=') == std::string_view::npos ? text.size() : text.find('='));
  std::string_view type = trim(text.substr(0, space));
  std::string_view name = trim(text.substr(space + 1));
  std::string_view value;
  if (const size_t equals = name.find('='); equals != std::string_view::npos) {
    value = trim(name.substr(equals + 1));
    name = trim(name.substr(0, equals));
  }
  if (const size_t open = type.find('('); open != std::string_view::npos) {
    const size_t close = type.find(')', open);
    arg.aliased = true;
    arg.mutated = type.substr(open, close - open).find('!') != std::string_view::npos;
    const std::string_view rest = type.substr(close + 1);
    arg.optional = rest.find('?') != std::string_view::npos;
    arg.kind = kind_of(type.substr(0, open), rest.find('[') != std::string_view::npos);
  } else {
    const size_t open_list = type.find('[');
    std::string_view base = type.substr(0, open_list);
    if (open_list != std::string_view::npos) arg.list_size = std::atoi(std::string(type.substr(open_list + 1)).c_str());
    arg.optional = type.find('?') != std::string_view::npos;
    if (!base.empty() && base.back() == '?') base.remove_suffix(1);
    arg.kind = kind_of(base, open_list != std::string_view::npos);
  }
  arg.name = std::string(name);
  if (!value.empty()) {
    arg.has_default = true;
    arg.default_value = default_of(value, arg.kind);
  }
  return arg;
}

}  // namespace

std::string to_string(const Attr& attr) {
  struct Print {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(DType d) const { return std::string(dtype_name(d)); }
    std::string operator()(const std::string& s) const { return "\"" + s + "\""; }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
    std::string operator()(const std::vector<double>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
    std::string operator()(const std::vector<bool>& v) const {
      std::string text = "[";
      for (size_t i = 0; i < v.size(); ++i) text += std::string(i ? ", " : "") + (v[i] ? "true" : "false");
      return text + "]";
    }
  };
  return std::visit(Print{}, attr);
}

int Schema::find(std::string_view arg) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}

Schema parse_schema(std::string_view text) {
  Schema schema;
  const size_t open = text.find('(');
  const size_t arrow = text.rfind("->");
  if (open == std::string_view::npos || arrow == std::string_view::npos)
    fail(ErrorKind::internal, "unreadable schema: {}", text);
  const std::string_view name = text.substr(0, open);
  schema.name = name.find("::") != std::string_view::npos || name.find('.') != name.rfind('.') ||
                        name.starts_with("<") || name.starts_with("wrap_")
                    ? std::string(name)
                    : fmt::format("aten.{}{}", name, name.find('.') == std::string_view::npos ? ".default" : "");
  const size_t close = text.rfind(')', arrow);
  for (auto part : split(text.substr(open + 1, close - open - 1)))
    if (part != "*") schema.args.push_back(parse_arg(part));
  const std::string_view results = trim(text.substr(arrow + 2));
  if (results.starts_with("("))
    schema.results = static_cast<int>(split(results.substr(1, results.size() - 2)).size());
  else if (results.find("[]") != std::string_view::npos)
    schema.results = -1;
  if (results == "()") schema.results = 0;
  return schema;
}

}  // namespace npusim
