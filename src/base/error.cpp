// The exception and its problems as text.
#include "base/error.h"

#include "base/utf8.h"
#include "npusim/message.h"

namespace npusim {
namespace {

// Of a problem that repeats what a file or a caller gave: its beginning and its end tell what is wrong.
constexpr size_t most_bytes = 8192;
std::string shortened(std::string_view text) { return without_middle(text, most_bytes); }

std::string lines(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) text += (text.empty() ? "" : "\n") + to_string(problem);
  return text;
}

std::vector<Problem> valid(std::vector<Problem> problems) {
  for (Problem& problem : problems)
    problem = {valid_utf8(shortened(problem.where)), valid_utf8(shortened(problem.reason))};
  return problems;
}

}  // namespace

std::string to_string(const Problem& problem) {
  const std::string reason = shortened(problem.reason);
  return printable(problem.where.empty() ? reason : shortened(problem.where) + ": " + reason);
}

Error::Error(ErrorKind kind, const std::string& message) : Error(kind, std::vector<Problem>{{"", message}}) {}
Error::Error(ErrorKind kind, std::vector<Problem> problems)
    : std::runtime_error(lines(problems)),
      kind_(kind),
      problems_(std::make_shared<const std::vector<Problem>>(valid(std::move(problems)))) {}

}  // namespace npusim
