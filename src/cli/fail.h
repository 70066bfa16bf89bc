// Errors of the command line itself.
#pragma once
#include <fmt/format.h>

#include "npusim/error.h"

namespace npusim::cli {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace npusim::cli
