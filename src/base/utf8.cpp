// Decoding of UTF-8.
#include "base/utf8.h"

namespace npusim {

CodePoint read_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {CodePoint::Kind::valid, 1, lead};
  if (lead < 0xc2 || lead > 0xf4) return {CodePoint::Kind::invalid, 1, 0};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  char32_t value = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {CodePoint::Kind::cut, i, 0};
    if (byte(i) < low || byte(i) > high) return {CodePoint::Kind::invalid, i, 0};
    low = 0x80;
    high = 0xbf;
    value = value << 6 | (byte(i) & 0x3fu);
  }
  return {CodePoint::Kind::valid, length, value};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = read_code_point(text);
    if (first.kind != CodePoint::Kind::valid) return false;
    text.remove_prefix(first.length);
  }
  return true;
}

std::string shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes)) + "…";
}

std::string without_middle(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t end = text.size() - bytes / 4;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return shortened(text, bytes - bytes / 4).append(text.substr(end));
}

}  // namespace npusim
