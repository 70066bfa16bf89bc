// An expression as text that knows how strongly its outermost operator binds: where it is put into a larger one it is
// in parentheses if it needs them. Every piece that is computed or handed over enters an expression as one of these.
//   fmt::format("{} - {}", a, b)  each an operand of anything: parentheses unless it is a name, a call, an element
//   fmt::format("{:*} * 8", a)    the first factor: a product stays as it is
//   fmt::format("{:+} + 1", a)    a summand: a sum or a product stays as it is
// What stands alone, as an argument, an index or behind =, is `text`.
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace npusim {

// The loosest first. What is looser than a sum is one of a kind here, and so is what binds like a sign or a cast.
enum class Binding : uint8_t { loose, sum, product, primary };

Binding binding_of(std::string_view expression);

struct Term {
  std::string text;
  Binding binds = Binding::primary;

  Term() = default;
  Term(std::string expression) : text(std::move(expression)), binds(binding_of(text)) {}
  Term(std::string_view expression) : Term(std::string(expression)) {}
  Term(const char* expression) : Term(std::string(expression)) {}
  Term(std::integral auto number) : Term(std::to_string(number)) {}
  bool empty() const { return text.empty(); }
  bool operator==(const Term&) const = default;
};

// The text of format() as a term.
template <typename... Args>
Term term(fmt::format_string<Args...> form, Args&&... args) {
  return Term(fmt::format(form, std::forward<Args>(args)...));
}

}  // namespace npusim

template <>
struct fmt::formatter<npusim::Term> {
  npusim::Binding least = npusim::Binding::primary;

  constexpr auto parse(format_parse_context& context) {
    const auto* at = context.begin();
    if (at != context.end() && (*at == '*' || *at == '+'))
      least = *at++ == '*' ? npusim::Binding::product : npusim::Binding::sum;
    return at;
  }
  template <typename Context>
  auto format(const npusim::Term& term, Context& context) const {
    if (term.binds < least) return fmt::format_to(context.out(), "({})", term.text);
    return fmt::format_to(context.out(), "{}", term.text);
  }
};
