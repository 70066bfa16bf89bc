// Errors as npusim's own code throws them; what a caller branches on is a value, not an exception.
#pragma once
#include <fmt/core.h>

#include "npusim/error.h"

namespace npusim {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace npusim
