// White space, and the normalization forms of Unicode Standard Annex 15.
#include "text/unicode.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_tables.h"

namespace npusim::bpe {
namespace {

// Hangul syllables are composed by arithmetic: of a leading consonant, a vowel and perhaps a trailing consonant.
constexpr char32_t first_syllable = 0xac00, first_lead = 0x1100, first_vowel = 0x1161, before_trail = 0x11a7;
constexpr char32_t leads = 19, vowels = 21, trails = 28, syllables = leads * vowels * trails;

unsigned combining_class(char32_t c) {
  const auto ranges = combining_classes();
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), c,
                                     [](char32_t value, const CombiningRange& range) { return value < range.first; });
  return next != ranges.begin() && c <= std::prev(next)->last ? std::prev(next)->combining : 0;
}

const Decomposition* find_decomposition(char32_t c) {
  const auto all = canonical_decompositions();
  const auto found = std::lower_bound(all.begin(), all.end(), c,
                                      [](const Decomposition& d, char32_t value) { return d.code < value; });
  return found != all.end() && found->code == c ? &*found : nullptr;
}

void decompose(char32_t c, std::u32string& to) {
  if (c >= first_syllable && c < first_syllable + syllables) {
    const char32_t index = c - first_syllable;
    to += first_lead + index / (vowels * trails);
    to += first_vowel + index / trails % vowels;
    if (index % trails) to += before_trail + index % trails;
  } else if (const Decomposition* parts = find_decomposition(c)) {
    decompose(parts->first, to);
    if (parts->second) decompose(parts->second, to);
  } else {
    to += c;
  }
}

// Marks behind a starter by their classes, those of one class as they stood.
void order_marks(std::u32string& text, std::vector<unsigned>& classes) {
  std::vector<std::pair<unsigned, char32_t>> marks;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    if (classes[begin] == 0) continue;
    size_t end = begin;
    marks.clear();
    for (; end < text.size() && classes[end] != 0; ++end) marks.emplace_back(classes[end], text[end]);
    std::stable_sort(marks.begin(), marks.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < marks.size(); ++i) std::tie(classes[begin + i], text[begin + i]) = marks[i];
    begin = end - 1;
  }
}

// The one code point that two compose to; 0: none.
char32_t compose(char32_t first, char32_t second) {
  static const auto pairs = [] {
    std::unordered_map<uint64_t, char32_t> all;
    const auto excluded = excluded_compositions();
    for (const Decomposition& d : canonical_decompositions())
      if (d.second && !std::binary_search(excluded.begin(), excluded.end(), d.code))
        all.emplace(uint64_t{d.first} << 32 | d.second, d.code);
    return all;
  }();
  if (first >= first_lead && first < first_lead + leads && second >= first_vowel && second < first_vowel + vowels)
    return first_syllable + ((first - first_lead) * vowels + second - first_vowel) * trails;
  const bool open =
      first >= first_syllable && first < first_syllable + syllables && (first - first_syllable) % trails == 0;
  if (open && second > before_trail && second < before_trail + trails) return first + second - before_trail;
  const auto found = pairs.find(uint64_t{first} << 32 | second);
  return found == pairs.end() ? 0 : found->second;
}

// Each code point joins the last starter before it, unless one between them, which stays, is a starter or of its class
// or a higher one.
void compose_all(std::u32string& text, const std::vector<unsigned>& classes) {
  size_t starter = SIZE_MAX, kept = 0;
  unsigned between = 0;  // the class of the last that stays behind the starter; 0: there is none
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    const bool blocked = kept != starter + 1 && (between == 0 || between >= classes[i]);
    if (const char32_t joined = starter == SIZE_MAX || blocked ? 0 : compose(text[starter], c)) {
      text[starter] = joined;
      continue;
    }
    if (classes[i] == 0) starter = kept;
    between = classes[i];
    text[kept++] = c;
  }
  text.resize(kept);
}

void append_utf8(std::string& text, char32_t c) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | c >> 6), tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | c >> 12), tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0);
  }
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while ((text[at] & 0xc0) == 0x80) --at;
  return text.substr(at);
}

void check_text(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = read_code_point(text.substr(at));
    if (c.kind != CodePoint::Kind::valid)
      fail(ErrorKind::bad_input, "text to tokenize: expected UTF-8, found byte 0x{:02x} at byte {}", text[at] & 0xff,
           at);
    at += c.length;
  }
}

std::string normalized(std::string_view text, Normalization form) {
  // No code point below this one decomposes, or without a mark composes. In UTF-8, leading bytes are in their order.
  const unsigned char unchanged = form == Normalization::nfc ? 0xcc : 0xc3;  // of U+0300, U+00C0
  const auto changes = [&](char byte) { return static_cast<unsigned char>(byte) >= unchanged; };
  if (std::none_of(text.begin(), text.end(), changes)) return std::string(text);
  std::u32string parts;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = read_code_point(text.substr(at));
    decompose(c.value, parts);
    at += c.length;
  }
  std::vector<unsigned> classes;
  classes.reserve(parts.size());
  for (const char32_t c : parts) classes.push_back(combining_class(c));
  order_marks(parts, classes);
  if (form == Normalization::nfc) compose_all(parts, classes);
  std::string result;
  result.reserve(text.size());
  for (const char32_t c : parts) append_utf8(result, c);
  return result;
}

bool has_newer(std::string_view text) {
  const auto ranges = newer_than_14();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = read_code_point(text.substr(at));
    at += c.length;
    if (c.value < ranges.front().first) continue;
    const auto next = std::upper_bound(ranges.begin(), ranges.end(), c.value,
                                       [](char32_t value, const NewerRange& range) { return value < range.first; });
    if (next != ranges.begin() && c.value <= std::prev(next)->last) return true;
  }
  return false;
}

}  // namespace npusim::bpe
