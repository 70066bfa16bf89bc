// What tokenizers need of Unicode: white space, and text that is its own NFC.
#pragma once
#include <string>
#include <string_view>

namespace npusim::bpe {

// The last code point of valid UTF-8 that is not empty.
std::string_view last_character(std::string_view text);
// Unicode's White_Space.
bool is_space(char32_t c);

// Requires valid UTF-8, and with `nfc` that it is certainly its own NFC form, as the file `origin` asks for.
void check_text(std::string_view text, bool nfc, const std::string& origin);

}  // namespace npusim::bpe
