// Escapes, and the distance between words.
#include "npusim/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace npusim {
namespace {

// Controls (C0, DEL, C1), separators of lines and paragraphs, marks of direction (Unicode's Bidi_Control), and what is
// no character, which XML does not have.
bool is_harmful(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || (c >= 0xfdd0 && c <= 0xfdef) ||
         (c & 0xfffe) == 0xfffe;
}

std::string escape(char32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
}

// What is escaped beside bytes that are no UTF-8.
enum class Escape { nothing, controls, controls_but_lines };

std::string escaped(std::string_view text, Escape what) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = read_code_point(text.substr(at));
    if (c.kind != CodePoint::Kind::valid)
      for (size_t i = 0; i < c.length; ++i) result += fmt::format("\\x{:02x}", text[at + i] & 0xff);
    else if (what != Escape::nothing && is_harmful(c.value) && !(what == Escape::controls_but_lines && c.value == '\n'))
      result += escape(c.value);
    else
      result.append(text, at, c.length);
    at += c.length;
  }
  return result;
}

// Letters that are changed, left out, added, or swapped with their neighbour, until one word is the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) now[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, now);
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
  }
  return now.back();
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, Escape::controls); }
std::string printable_lines(std::string_view text) { return escaped(text, Escape::controls_but_lines); }
std::string valid_utf8(std::string_view text) { return escaped(text, Escape::nothing); }

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  constexpr size_t longest_word = 100;  // names are shorter, and a word may be as long as a file
  if (word.size() > longest_word) return {};
  const std::string* nearest = nullptr;
  size_t best = 0;  // twice the distance; of equally near names one with the same first letter
  for (const std::string& name : known) {
    if (name.size() > longest_word) continue;
    const bool begins = word.size() >= 3 && name.starts_with(word);
    const size_t far = begins ? 1 : distance(word, name);
    const size_t shorter = std::min(word.size(), name.size());
    const bool near = far > 0 && (begins || (far < shorter && far <= std::max<size_t>(1, shorter / 3)));
    const size_t rank = 2 * far + (word.empty() || name[0] != word[0]);
    if (near && (!nearest || rank < best)) nearest = &name, best = rank;
  }
  return nearest ? fmt::format("; did you mean {}?", *nearest) : std::string();
}

}  // namespace npusim
