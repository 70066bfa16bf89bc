// Parts of text files that the build compiled in (cmake/embed.cmake).
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

namespace npusim {

struct TextPart {
  std::string_view name, text;
};

// The parts of several files, in their order.
template <size_t... n>
constexpr std::array<TextPart, (n + ...)> joined(const std::array<TextPart, n>&... files) {
  std::array<TextPart, (n + ...)> all;
  size_t at = 0;
  const auto add = [&](const auto& file) {
    for (const TextPart& part : file) all[at++] = part;
  };
  (add(files), ...);
  return all;
}

}  // namespace npusim
