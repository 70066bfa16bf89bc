// The problems found while reading one file, collected so that all are reported together.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace npusim {

struct Problems {
  std::string where;  // names the file; every line starts with it
  size_t limit = 50;
  size_t count = 0;
  bool only_unsupported = true;
  std::vector<std::string> lines;

  template <typename... Args>
  void add(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
    only_unsupported = only_unsupported && kind == ErrorKind::unsupported;
    if (++count > limit) return;
    std::string line = fmt::format("{}: ", where) + fmt::format(format, std::forward<Args>(args)...);
    if (line.size() > 1000) line = line.substr(0, 1000) + "…";
    // One problem is one line, whatever a hostile file has in its names.
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, ' ');
    lines.push_back(std::move(line));
  }
  template <typename... Args>
  void bad(fmt::format_string<Args...> format, Args&&... args) {
    add(ErrorKind::bad_input, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void unsupported(fmt::format_string<Args...> format, Args&&... args) {
    add(ErrorKind::unsupported, format, std::forward<Args>(args)...);
  }

  // Throws all of them as one error; does nothing when there are none.
  void raise() const {
    if (!count) return;
    std::string text = fmt::format("{}", fmt::join(lines, "\n"));
    if (count > lines.size()) text += fmt::format("\n{}: and {} more", where, count - lines.size());
    throw Error(only_unsupported ? ErrorKind::unsupported : ErrorKind::bad_input, text);
  }
};

}  // namespace npusim
