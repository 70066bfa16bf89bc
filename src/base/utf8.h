// UTF-8, read a code point at a time.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace npusim {

struct CodePoint {
  enum class Kind { valid, cut, invalid } kind;  // cut: the text ends inside it
  size_t length;                                 // bytes; of what is not valid, the longest prefix that could begin one
  char32_t value;
};

// The code point at the start of `text`, which is not empty (the Unicode Standard, table 3-7).
CodePoint read_code_point(std::string_view text);
bool is_utf8(std::string_view text);
// The text, or where it is longer its first whole code points within `bytes` and "…".
std::string shortened(std::string_view text, size_t bytes);
// The text, or where it is longer its beginning and its end, a quarter of `bytes`, and between them "…".
std::string without_middle(std::string_view text, size_t bytes);

}  // namespace npusim
