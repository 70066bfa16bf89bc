// The exception and its problems as text.
#include "base/error.h"

#include "npusim/message.h"

namespace npusim {
namespace {

std::string lines(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) text += (text.empty() ? "" : "\n") + to_string(problem);
  return text;
}

std::vector<Problem> valid(std::vector<Problem> problems) {
  for (Problem& problem : problems) problem = {valid_utf8(problem.where), valid_utf8(problem.reason)};
  return problems;
}

}  // namespace

std::string to_string(const Problem& problem) {
  return printable(problem.where.empty() ? problem.reason : problem.where + ": " + problem.reason);
}

Error::Error(ErrorKind kind, const std::string& message) : Error(kind, std::vector<Problem>{{"", message}}) {}
Error::Error(ErrorKind kind, std::vector<Problem> problems)
    : std::runtime_error(lines(problems)),
      kind_(kind),
      problems_(std::make_shared<const std::vector<Problem>>(valid(std::move(problems)))) {}

}  // namespace npusim
