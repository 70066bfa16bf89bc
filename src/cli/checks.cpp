// Checks of flags' values, with one wording whatever the version of CLI11.
#include <fmt/format.h>

#include <charconv>

#include "cli/cli.h"

namespace npusim::cli {
namespace {

template <typename T>
CLI::Validator in_range(const char* kind, const char* shown, T low, T high) {
  const auto problem = [=](const std::string& text) -> std::string {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && value >= low && value <= high) return {};  // not so for NaN
    return fmt::format("expected {} from {} to {}, found {}", kind, low, high, text);
  };
  return {problem, fmt::format("{} in [{} - {}]", shown, low, high), "range"};
}

}  // namespace

CLI::Validator integer_in(int64_t low, int64_t high) { return in_range("an integer", "INT", low, high); }
CLI::Validator number_in(double low, double high) { return in_range("a number", "FLOAT", low, high); }

}  // namespace npusim::cli
