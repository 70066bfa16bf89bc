// The problems found while reading one file, collected so that all are reported together.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "npusim/message.h"

namespace npusim {

struct Problems {
  std::string where;  // names the file; every problem's location starts with it
  size_t limit = 50;
  size_t count = 0;
  bool only_unsupported = true;
  std::vector<Problem> list;

  // `location` is within the file: "node 'relu_3' (aten.relu.default)", or empty.
  template <typename... Args>
  void add(ErrorKind kind, const std::string& location, fmt::format_string<Args...> format, Args&&... args) {
    only_unsupported = only_unsupported && kind == ErrorKind::unsupported;
    if (++count > limit) return;
    list.push_back({one_line(where + (location.empty() ? "" : ": " + location)),
                    one_line(fmt::format(format, std::forward<Args>(args)...))});
  }
  template <typename... Args>
  void bad(const std::string& location, fmt::format_string<Args...> format, Args&&... args) {
    add(ErrorKind::bad_input, location, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void unsupported(const std::string& location, fmt::format_string<Args...> format, Args&&... args) {
    add(ErrorKind::unsupported, location, format, std::forward<Args>(args)...);
  }

  // Throws all of them as one error; does nothing when there are none.
  void raise() const {
    if (!count) return;
    std::vector<Problem> all = list;
    if (count > list.size()) all.push_back({where, fmt::format("and {} more", count - list.size())});
    throw Error(only_unsupported ? ErrorKind::unsupported : ErrorKind::bad_input, std::move(all));
  }

 private:
  // One problem is one line, whatever a hostile file has in its names.
  static std::string one_line(std::string_view text) { return printable(shortened(text, 1000)); }
};

}  // namespace npusim
