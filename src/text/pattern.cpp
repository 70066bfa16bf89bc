// Translation of split patterns from Oniguruma's syntax to PCRE2's.
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"

namespace npusim::bpe {
namespace {

using nlohmann::json;

constexpr std::string_view spaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view non_spaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view word_characters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

[[noreturn]] void refuse_syntax(const Field& pattern, std::string_view what) {
  fail(ErrorKind::unsupported, "{}: {} in {} is not supported", where(pattern), what, json_quoted(string(pattern)));
}

// The escape at text[at] in PCRE2's syntax, `at` moved behind it.
std::string translate_escape(std::string_view text, size_t& at, bool in_class, const Field& pattern) {
  const char c = at + 1 < text.size() ? text[at + 1] : '\0';
  const auto set = [&](std::string_view members, bool negated) {
    at += 2;
    return in_class ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members);
  };
  if (c == 's') return set(spaces, false);
  if (c == 'S') return set(in_class ? non_spaces : spaces, true);
  if (c == 'w') return set(word_characters, false);
  if (c == 'W' && !in_class) return set(word_characters, true);
  const size_t close = text.find('}', at);
  if ((c == 'p' || c == 'P' || c == 'x') && text.substr(at + 2).starts_with('{') && close != std::string_view::npos) {
    const std::string_view name = text.substr(at + 3, close - at - 3);
    at = close + 1;
    const bool script = c != 'x' && name.size() > (name.starts_with('^') ? 3 : 2);  // by itself: Script_Extensions
    return script ? fmt::format("\\{}{{sc:{}}}", c, name) : fmt::format("\\{}{{{}}}", c, name);
  }
  const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (c == '\0' || (alphanumeric && std::string_view("dDrntfaeAz").find(c) == std::string_view::npos))
    refuse_syntax(pattern, fmt::format("\\{}", c == '\0' ? std::string() : std::string(1, c)));
  at += 2;
  return std::string(text.substr(at - 2, 2));
}

// What a part of a pattern is repeated is walked along without being counted (text/split.h).
constexpr int most_repeats = 100;

// Whether a number of {n}, {n,} or {n,m} is larger.
bool repeats_more(std::string_view repeat) {
  int number = 0;
  for (const char c : repeat.substr(1, repeat.find('}'))) {
    if (c < '0' || c > '9') number = 0;
    if (c >= '0' && c <= '9') number = std::min(10 * number + (c - '0'), most_repeats + 1);
    if (number > most_repeats) return true;
  }
  return false;
}

// What PCRE2 spells otherwise is translated.
std::string translate_pattern(const Field& pattern) {
  const std::string_view text = string(pattern);
  std::string result;
  bool in_class = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest[0] == '\\') {
      result += translate_escape(text, at, in_class, pattern);
      continue;
    }
    if (in_class) {
      if (rest[0] == '[') refuse_syntax(pattern, "a set inside a set");
      if (rest.starts_with("&&")) refuse_syntax(pattern, "an intersection of sets");
      if (rest[0] == ']') in_class = false;
    } else if (rest[0] == '[') {
      if (rest.starts_with("[]") || rest.starts_with("[^]")) refuse_syntax(pattern, "a set that begins with ]");
      in_class = true;
    } else if (rest.starts_with("(*")) {
      refuse_syntax(pattern, "(*");
    } else if (rest.starts_with("(?")) {
      const std::string_view kind = rest.substr(2);
      const auto begins = [&](const char* text) { return kind.starts_with(text); };
      constexpr std::array plain = {":", "=", "!", ">", "<=", "<!", "i:", "-i:"};
      if (std::none_of(plain.begin(), plain.end(), begins) && !(at == 0 && begins("i)")))
        refuse_syntax(pattern, "the group (?" + std::string(kind.substr(0, kind.find_first_of(":)") + 1)));
    } else if (rest.starts_with("{,") || rest.starts_with("}+") || rest.starts_with("}?")) {
      refuse_syntax(pattern, std::string(rest.substr(0, 2)));
    } else if (rest[0] == '{' && repeats_more(rest)) {
      refuse_syntax(pattern, fmt::format("a repeat of more than {}", most_repeats));
    }
    result += rest[0];
    ++at;
  }
  return result;
}

// PCRE2 options under which a translated pattern means what Ruby's means.
constexpr uint32_t ruby_options = PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

Pattern compile_pattern(const std::string& text, uint32_t options, const Field& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  options |= PCRE2_UTF | PCRE2_AUTO_CALLOUT;  // by which a Matcher counts what is done
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error, &offset, nullptr);
  if (!code) {
    char message[256] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    refuse_syntax(pattern, message);
  }
  return {code, [](const pcre2_code* c) { pcre2_code_free(const_cast<pcre2_code*>(c)); }};
}

}  // namespace

Pattern compile_regex(const Field& pattern) {
  return compile_pattern(translate_pattern(pattern), ruby_options, pattern);
}

Pattern compile_literal(const Field& text) { return compile_pattern(string(text), PCRE2_LITERAL, text); }

Pattern compile_own(const char* text, const Field& place) {
  const json value = text;
  return compile_regex({value, place.origin, place.path});
}

Pattern word_pattern() {
  const json text = fmt::format("[{}\\x{{200c}}\\x{{200d}}]", word_characters);
  const std::string origin = "word characters";
  return compile_pattern(text.get<std::string>(), ruby_options | PCRE2_ANCHORED, {text, origin, ""});
}

}  // namespace npusim::bpe
