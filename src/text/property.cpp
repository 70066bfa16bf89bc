// Sets of code points by property, and what ignoring case adds to them.
#include "text/property.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/unicode_tables.h"

namespace npusim::bpe {
namespace {

constexpr std::string_view spaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

constexpr std::array categories = {"L",  "Lu", "Ll", "Lt", "LC", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
                                   "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc",
                                   "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn"};
// Scripts without letters of two cases. Others gain members where case is ignored that depend on Unicode's version.
constexpr std::array caseless_scripts = {
    "han",    "hani",  "hiragana", "hira",    "katakana",   "kana",   "hangul",  "hang",     "thai",
    "arabic", "arab",  "hebrew",   "hebr",    "devanagari", "deva",   "lao",     "tibetan",  "bopomofo",
    "khmer",  "tamil", "bengali",  "myanmar", "sinhala",    "telugu", "kannada", "malayalam"};

// As names are compared: without case, spaces, hyphens and underscores. "" where other characters are in it.
std::string loose(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && c != ' ' && c != '-' && c != '_') return {};
    if (letter) result += static_cast<char>(c | 0x20);
  }
  return result;
}

bool is_of(const NewerRange& range, std::string_view category) {
  const std::string_view its = range.category;
  if (category == "LC") return its == "Lu" || its == "Ll" || its == "Lt";
  return category == its || category == its.substr(0, 1);
}

template <typename Has>
void add_newer(std::string& members, Has has) {
  for (const NewerRange& range : newer_than_14())
    if (has(range)) members += range_member(range.first, range.last);
}

// What PCRE2 does not know is unassigned to it, and in C and Cn: these are what no other category has.
Members unassigned(bool only, bool newer) {
  Members result = {
      only ? R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}\p{Cs}\p{Co})" : R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z})",
      true,
      true,
      {},
      true};
  if (newer) add_newer(result.text, [&](const NewerRange& range) { return only || range.category[0] != 'C'; });
  return result;
}

// U+0345, a mark, is iota where case is ignored. All else that has case is in L, N or S together with its other case.
void know_case(Members& members, std::string_view category) {
  if (category == "M" || category == "Mn") members.other_case = R"(\x{399}\x{3b9}\x{1fbe})";
  if (category == "L") members.other_case = R"(\x{345})";
  members.word_like = category == "L";
  members.case_known = category[0] != 'L' || category == "L" || category == "Lo" || category == "Lm";
}

}  // namespace

std::optional<Members> property_members(std::string_view name, bool newer) {
  const std::string wanted = loose(name);
  if (wanted.empty()) return std::nullopt;
  const auto category =
      std::find_if(categories.begin(), categories.end(), [&](const char* one) { return loose(one) == wanted; });
  Members result;
  if (category != categories.end()) {
    const std::string_view its = *category;
    if (its == "C" || its == "Cn") return unassigned(its == "Cn", newer);
    result.text = fmt::format("\\p{{{}}}", its == "LC" ? "L&" : its);
    if (newer) add_newer(result.text, [&](const NewerRange& range) { return is_of(range, its); });
    know_case(result, its);
    return result;
  }
  // Scripts by themselves, not Script_Extensions. Unknown ones are those that PCRE2 does not know, and two have names
  // of Oniguruma's only.
  if (wanted.size() < 3 || wanted == "unknown" || wanted == "zzzz" || wanted.starts_with("qaa")) return std::nullopt;
  result.text = fmt::format("\\p{{sc:{}}}", wanted);
  if (newer)
    add_newer(result.text, [&](const NewerRange& range) {
      return loose(range.script) == wanted || loose(range.script_code) == wanted;
    });
  result.case_known = std::find(caseless_scripts.begin(), caseless_scripts.end(), wanted) != caseless_scripts.end();
  return result;
}

Members escape_members(char letter, bool newer) {
  Members result;
  result.case_known = true;
  if (letter == 's') {
    result.text = spaces;
  } else if (letter == 'd') {
    result.text = property_members("Nd", newer)->text;
  } else {
    result.text = R"(\p{Alphabetic})";  // its newer ones are in the others, or in L and Nl
    for (const char* category : {"L", "M", "Nd", "Nl", "Pc"}) result.text += property_members(category, newer)->text;
    result.word_like = true;
  }
  return result;
}

std::string_view lone_word_members() { return R"(\xb2\xb3\xb9\xbc-\xbe)"; }

std::string range_member(char32_t first, char32_t last) {
  const auto from = static_cast<uint32_t>(first), to = static_cast<uint32_t>(last);
  return from == to ? fmt::format("\\x{{{:x}}}", from) : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", from, to);
}

bool has_case(char32_t first, char32_t last) {
  // Blocks with letters of two cases, and all that is between them in Latin, Greek and Cyrillic.
  struct Block {
    char32_t first, last;
  };
  constexpr Block blocks[] = {{0xb5, 0xb5},       {0xc0, 0x588},      {0x10a0, 0x10ff},   {0x13a0, 0x13ff},
                              {0x1c80, 0x1cbf},   {0x1d00, 0x1dbf},   {0x1e00, 0x1fff},   {0x2126, 0x218f},
                              {0x24b6, 0x24ea},   {0x2c00, 0x2d2f},   {0xa640, 0xa69f},   {0xa720, 0xa7ff},
                              {0xab30, 0xabbf},   {0xfb00, 0xfb17},   {0xff21, 0xff5a},   {0x10400, 0x104ff},
                              {0x10570, 0x105bf}, {0x10c80, 0x10cff}, {0x10d50, 0x10d8f}, {0x118a0, 0x118df},
                              {0x16e40, 0x16edf}, {0x1df00, 0x1dfff}, {0x1e900, 0x1e943}};
  return std::any_of(std::begin(blocks), std::end(blocks),
                     [&](const Block& block) { return first <= block.last && last >= block.first; });
}

std::string other_case(char32_t first, char32_t last) {
  std::string members;
  const auto has = [&](char32_t c) { return first <= c && c <= last; };
  const auto add_other = [&](char32_t a, char32_t z) {
    const char32_t begin = std::max(first, a), end = std::min(last, z);
    if (begin <= end) members += range_member(begin ^ 0x20, end ^ 0x20);
  };
  add_other('A', 'Z');
  add_other('a', 'z');
  if (has('s') || has('S')) members += "\\x{17f}";
  if (has('k') || has('K')) members += "\\x{212a}";
  return members;
}

}  // namespace npusim::bpe
