// The code points that escapes of patterns stand for, as Oniguruma has them, and the other case of letters.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace npusim::bpe {

// Members of a set in PCRE2's syntax, without the brackets.
struct Members {
  std::string text;
  bool all_but = false;     // the set has every code point but these
  bool word_like = false;   // has code points that several others stand for where case is ignored, as ß does for ss
  std::string other_case;   // what ignoring case adds
  bool case_known = false;  // other_case is all of it
};

// With `newer`, properties have the code points of newer_than_14() whatever PCRE2's own tables are, which takes longer
// to match.

// \p{NAME}: a general category or a script. None for other properties.
std::optional<Members> property_members(std::string_view name, bool newer);
// \s, \w or \d within a set.
Members escape_members(char letter, bool newer);
// What \w has only outside sets: numbers of Latin-1.
std::string_view lone_word_members();

// Whether a code point in the range, beyond ASCII, is matched by other ones, or several, where case is ignored.
bool has_case(char32_t first, char32_t last);
// The members that ignoring case adds to the range's part in ASCII.
std::string other_case(char32_t first, char32_t last);

std::string range_member(char32_t first, char32_t last);

}  // namespace npusim::bpe
