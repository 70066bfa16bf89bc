// What each role asks of a tensor and of a method.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "program/program.h"

namespace npusim {

std::string_view role_name(Role role) {
  static constexpr std::array<std::string_view, role_count> names = {
      "data", "tokens", "positions", "mask", "logits", "last", "generator", "temperature", "top_p"};
  return names[static_cast<size_t>(role)];
}

int find_role(const std::vector<TensorSpec>& specs, Role role) {
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].role == role) return static_cast<int>(i);
  return -1;
}

bool fits(Role role, const TensorType& type, bool output, int64_t length) {
  const Shape& shape = type.shape;
  const bool row = shape.size() == 2 && shape[0] == 1, whole = is_integer(type.dtype);
  switch (role) {
    case Role::data:
      return true;
    case Role::tokens:
      return whole && row && shape[1] == length;
    case Role::positions:
      return whole && (row || shape.size() == 1) && shape.back() == length;
    case Role::mask:
      return !output && (row || (shape.size() == 4 && shape[0] == 1 && shape[2] == length && !whole));
    case Role::logits:
      return output && is_float(type.dtype) && shape.size() == 3 && shape[0] == 1 &&
             (shape[1] == 1 || shape[1] == length);
    case Role::last:
      return !output && whole && shape == Shape{1};
    case Role::generator:
      return !output && type == TensorType{DType::i64, {2}};
    case Role::temperature:
    case Role::top_p:
      return type == TensorType{DType::f32, {1}};
  }
  return false;
}

std::vector<std::string> check_roles(const Method& method) {
  std::vector<std::string> problems;
  int64_t length = 0;
  for (const TensorSpec& spec : method.inputs)
    if (spec.role == Role::tokens && spec.type.shape.size() == 2) length = spec.type.shape[1];
  for (const bool output : {false, true}) {
    std::array<int, role_count> counts{};
    for (const TensorSpec& spec : output ? method.outputs : method.inputs) {
      const std::string_view role = role_name(spec.role);
      if (!fits(spec.role, spec.type, output, length))
        problems.push_back(fmt::format("{} '{}' of {}: expected no {} of {} tokens", output ? "output" : "input",
                                       spec.name, to_string(spec.type), role, length));
      if (++counts[static_cast<size_t>(spec.role)] == 2 && spec.role != Role::data && spec.role != Role::positions)
        problems.push_back(
            fmt::format("{} '{}': expected one with the {}", output ? "output" : "input", spec.name, role));
    }
  }
  return problems;
}

}  // namespace npusim
