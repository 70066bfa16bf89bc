// The outermost operator of an expression.
#include "print/term.h"

#include <algorithm>
#include <cctype>

namespace npusim {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Behind a name or a number that begins at `at`; of 1e-5f and 0x1p-3f the sign is a part.
size_t behind_word(std::string_view text, size_t at) {
  const bool number = std::isdigit(static_cast<unsigned char>(text[at])), hex = text.substr(at).starts_with("0x");
  while (at < text.size() && is_word(text[at])) {
    const char c = text[at++];
    if (number && (hex ? c == 'p' : c == 'e') && at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  }
  return at;
}

// Behind the bracket that closes the one at `at`.
size_t behind_bracket(std::string_view text, size_t at) {
  for (int depth = 0; at < text.size(); ++at) {
    if (std::string_view("([{").find(text[at]) != std::string_view::npos) ++depth;
    if (std::string_view(")]}").find(text[at]) != std::string_view::npos && --depth == 0) return at + 1;
  }
  return at;
}

}  // namespace

Binding binding_of(std::string_view text) {
  enum { nothing, operand, group } before = nothing;  // `group`: in parentheses, which is a cast if an operand follows
  Binding binds = Binding::primary;
  const auto loosen = [&](Binding to) { binds = std::min(binds, to); };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == ' ') {
      ++at;
    } else if (c == '(' || c == '[' || c == '{') {
      if (before == group && c == '(') loosen(Binding::product);
      const bool begins = before == nothing && c == '(';
      at = behind_bracket(text, at);
      before = begins ? group : operand;
      if (begins && text.substr(0, at).ends_with("*)")) loosen(Binding::product), before = nothing;  // a pointer's type
    } else if (text.substr(at, 2) == "->" || text.substr(at, 2) == "::") {
      at += 2, before = nothing;
    } else if (is_word(c)) {
      if (before == group && c != '.') loosen(Binding::product);
      before = operand, at = behind_word(text, at);
    } else {
      const bool sign = before == nothing || (before == group && (c == '!' || c == '~') && text.substr(at, 2) != "!=");
      if (sign || c == '*' || c == '/' || c == '%')
        loosen(Binding::product);
      else
        loosen(c == '+' || c == '-' ? Binding::sum : Binding::loose);
      before = nothing, ++at;
    }
  }
  return binds;
}

}  // namespace npusim
