// The one exception type and its kinds; what a caller branches on is a value, not an exception.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace npusim {

enum class ErrorKind { usage, bad_input, unsupported, device, internal };

// The message names what, where, the expectation and the finding; several problems are separated by '\n'.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Exit code of the command line for an error of this kind (docs/cli.md).
int exit_code(ErrorKind kind);

}  // namespace npusim
