// What tokenizers need of Unicode: code points of UTF-8, white space, and text that is its own NFC.
#pragma once
#include <string>
#include <string_view>

namespace npusim::bpe {

struct CodePoint {
  enum class Kind { valid, cut, invalid } kind;  // cut: the text ends inside it
  size_t length;                                 // bytes; of what is not valid, the longest prefix that could begin one
  char32_t value;
};

// The code point at the start of `text`, which is not empty (the Unicode Standard, table 3-7).
CodePoint read_code_point(std::string_view text);
// The last code point of valid UTF-8 that is not empty.
std::string_view last_character(std::string_view text);
// Unicode's White_Space.
bool is_space(char32_t c);

// Requires valid UTF-8, and with `nfc` that it is certainly its own NFC form, as the file `origin` asks for.
void check_text(std::string_view text, bool nfc, const std::string& origin);

}  // namespace npusim::bpe
