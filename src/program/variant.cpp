// A program as it is on some architectures, and what all of them have in common.
#include "program/variant.h"

#include <fmt/format.h>

#include <algorithm>

namespace npusim {
namespace {

// Buffers may stand at other positions; one that is a state is one everywhere, and the model's or an argument.
bool same_tensors(const Variant& a, const std::vector<TensorSpec>& of_a, const Variant& b,
                  const std::vector<TensorSpec>& of_b) {
  const auto kind = [](const Variant& v, int32_t buffer) {
    const auto at = static_cast<size_t>(buffer);
    const bool known = buffer >= 0 && at < v.buffers.size();
    return known ? std::pair(v.buffers[at].kind, v.buffers[at].kept) : std::pair(BufferKind::local, false);
  };
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [&](const TensorSpec& x, const TensorSpec& y) {
    return x.name == y.name && x.type == y.type && x.role == y.role && kind(a, x.buffer) == kind(b, y.buffer);
  });
}

}  // namespace

Program with_variant(const Program& program, size_t variant) {
  Program made;
  static_cast<Variant&>(made) = program.variants.at(variant);
  made.model = program.model;
  made.dtype = program.dtype;
  made.strict = program.strict;
  made.constants = program.constants;
  made.origins = program.origins;
  made.text = program.text;
  return made;
}

std::vector<std::string> check_methods_of_variant(const Program& program, const Variant& variant) {
  if (variant.methods.size() != program.methods.size())
    return {fmt::format("expected the program's {} methods, found {}", program.methods.size(), variant.methods.size())};
  std::vector<std::string> problems;
  for (size_t i = 0; i < variant.methods.size(); ++i) {
    const Method &expected = program.methods[i], &found = variant.methods[i];
    if (found.name != expected.name || !same_tensors(program, expected.inputs, variant, found.inputs) ||
        !same_tensors(program, expected.outputs, variant, found.outputs))
      problems.push_back(
          fmt::format("method '{}': expected the inputs and outputs of method '{}'", found.name, expected.name));
  }
  return problems;
}

}  // namespace npusim
