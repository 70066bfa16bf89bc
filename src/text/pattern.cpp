// Translation of split patterns from Oniguruma's syntax to PCRE2's.
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "text/unicode_tables.h"

namespace npusim::bpe {
namespace {

using nlohmann::json;

constexpr std::string_view spaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::array word_properties = {"Alphabetic", "M", "Nd", "Pc"};

[[noreturn]] void refuse_syntax(const Field& pattern, std::string_view what) {
  fail(ErrorKind::unsupported, "{}: {} in {} is not supported", where(pattern), what, json_quoted(string(pattern)));
}

bool has_property(const NewerRange& range, std::string_view name) {
  const std::string_view category = range.category;
  if (name == "Alphabetic") return category[0] == 'L' || category == "Nl";
  if (name == "L&") return category == "Lu" || category == "Ll" || category == "Lt";
  return name == category || name == category.substr(0, 1) || name == range.script;
}

// Members of a set: the code points of a property, those of newer_than_14() too where `newer`.
std::string property(std::string_view name, bool newer) {
  const bool script = name.size() > 2 && name != "Alphabetic";  // by itself: Script_Extensions
  std::string members = fmt::format("\\p{{{}{}}}", script ? "sc:" : "", name);
  if (!newer) return members;
  for (const NewerRange& range : newer_than_14())
    if (has_property(range, name))
      members +=
          fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.last));
  return members;
}

std::string word_members(bool newer) {
  std::string members;
  for (const char* name : word_properties) members += property(name, newer);
  return members;
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

// Translates a pattern from its beginning to its end.
class Translator {
 public:
  Translator(const Field& pattern, bool newer) : pattern_(pattern), text_(string(pattern)), newer_(newer) {}

  std::string run() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (rest[0] == '\\')
        escape();
      else if (rest[0] == '[')
        set();
      else
        plain(rest);
    }
    return result_;
  }

 private:
  // What a set in brackets has: members, and properties of which it has all but the members.
  struct Set {
    std::string members;
    std::vector<std::string> complements;
  };

  [[noreturn]] void refuse(const std::string& what) const { refuse_syntax(pattern_, what); }

  void plain(std::string_view rest) {
    if (rest.starts_with("(*")) refuse("(*");
    if (rest.starts_with("(?")) {
      const std::string_view kind = rest.substr(2);
      const auto begins = [&](const char* text) { return kind.starts_with(text); };
      constexpr std::array groups = {":", "=", "!", ">", "<=", "<!", "i:", "-i:"};
      if (std::none_of(groups.begin(), groups.end(), begins) && !(at_ == 0 && begins("i)")))
        refuse("the group (?" + std::string(kind.substr(0, kind.find_first_of(":)") + 1)));
    } else if (rest.starts_with("{,") || rest.starts_with("}+") || rest.starts_with("}?")) {
      refuse(std::string(rest.substr(0, 2)));
    } else if (rest[0] == '{' && repeats_more(rest)) {
      refuse(fmt::format("a repeat of more than {}", most_repeats));
    }
    result_ += rest[0];
    ++at_;
  }

  void escape() {
    Set set;
    if (const std::string same = take_escape(set); !same.empty())
      result_ += same;
    else if (set.complements.empty())
      result_ += "[" + set.members + "]";
    else
      result_ += "[^" + set.complements[0] + "]";
  }

  // The escape at at_, which is moved behind it: as it stands, or "" where it is members or the complement of a set.
  std::string take_escape(Set& set) {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const size_t begin = at_;
    if (std::string_view("sSwWdD").find(c) != std::string_view::npos && c != '\0') {
      at_ += 2;
      const std::string members = c == 's' || c == 'S'   ? std::string(spaces)
                                  : c == 'w' || c == 'W' ? word_members(newer_)
                                                         : property("Nd", newer_);
      if (c >= 'a')
        set.members += members;
      else
        set.complements.push_back(members);
      return {};
    }
    const size_t close = text_.find('}', at_);
    if ((c == 'p' || c == 'P' || c == 'x') && text_.substr(at_ + 2).starts_with('{') &&
        close != std::string_view::npos) {
      std::string_view name = text_.substr(at_ + 3, close - at_ - 3);
      at_ = close + 1;
      if (c == 'x') return std::string(text_.substr(begin, at_ - begin));
      const bool not_it = name.starts_with('^');
      if (not_it) name.remove_prefix(1);
      if ((c == 'P') != not_it)
        set.complements.push_back(property(name, newer_));
      else
        set.members += property(name, newer_);
      return {};
    }
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0' || (alphanumeric && std::string_view("rntfaeAz").find(c) == std::string_view::npos))
      refuse(fmt::format("\\{}", c == '\0' ? std::string() : std::string(1, c)));
    at_ += 2;
    return std::string(text_.substr(begin, 2));
  }

  // The set at at_, which is moved behind it.
  void set() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("[]") || rest.starts_with("[^]")) refuse("a set that begins with ]");
    const bool negated = rest.starts_with("[^");
    at_ += negated ? 2 : 1;
    Set set;
    while (at_ < text_.size() && text_[at_] != ']') {
      if (text_[at_] == '[') refuse("a set inside a set");
      if (text_.substr(at_).starts_with("&&")) refuse("an intersection of sets");
      if (text_[at_] == '\\')
        set.members += take_escape(set);
      else
        set.members += text_[at_++];
    }
    const bool ends = at_ < text_.size();  // else PCRE2 says what is missing
    at_ += ends ? 1 : 0;
    if (set.complements.empty() || !ends) {
      result_ += fmt::format("[{}{}{}", negated ? "^" : "", set.members, ends ? "]" : "");
      return;
    }
    std::string any = set.members.empty() ? "" : "[" + set.members + "]";
    for (const std::string& members : set.complements) any += (any.empty() ? "[^" : "|[^") + members + "]";
    result_ += negated ? fmt::format("(?:(?!{})[\\x{{0}}-\\x{{10ffff}}])", any) : fmt::format("(?:{})", any);
  }

  const Field& pattern_;
  std::string_view text_;
  bool newer_;
  size_t at_ = 0;
  std::string result_;
};

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

Pattern compile_regex(const Field& pattern, bool newer) {
  return compile_pattern(Translator(pattern, newer).run(), ruby_options, pattern);
}

Pattern compile_literal(const Field& text) { return compile_pattern(string(text), PCRE2_LITERAL, text); }

Pattern word_pattern() {
  const json text = fmt::format("[{}\\x{{200c}}\\x{{200d}}]", word_members(true));
  const std::string origin = "word characters";
  return compile_pattern(text.get<std::string>(), ruby_options | PCRE2_ANCHORED, {text, origin, ""});
}

}  // namespace npusim::bpe
