// What tokenizers need of Unicode: white space, normalization, and whether a text has code points that PCRE2 may not
// know.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace npusim::bpe {

// The last code point of valid UTF-8 that is not empty.
std::string_view last_character(std::string_view text);
// Unicode's White_Space.
bool is_space(char32_t c);

// Requires valid UTF-8.
void check_text(std::string_view text);

// The normalization forms that split characters into their canonical parts, and that compose them again.
enum class Normalization : uint8_t { nfd, nfc };
// Of valid UTF-8.
std::string normalized(std::string_view text, Normalization form);

// Whether valid UTF-8 has a code point of newer_than_14().
bool has_newer(std::string_view text);

}  // namespace npusim::bpe
