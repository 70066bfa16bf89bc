// Translation of split patterns from Oniguruma's syntax to PCRE2's.
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/property.h"

namespace npusim::bpe {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_syntax(const Field& pattern, std::string_view what) {
  fail(ErrorKind::unsupported, "{}: {} in {} is not supported", where(pattern), what, json_quoted(string(pattern)));
}

// What a part of a pattern is repeated is walked along without being counted (text/split.h).
constexpr int most_repeats = 100;
// PCRE2 compiles to less than 64 KiB.
constexpr size_t longest_translation = 4 << 20;

// Pairs of letters that one code point stands for where case is ignored: U+FB00 for ff, and so on.
constexpr std::array<std::string_view, 5> joined_letters = {"ss", "ff", "fi", "fl", "st"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alphanumeric(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char32_t c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 0x20 : c); }

// Translates a pattern from its beginning to its end. PCRE2 never ignores case itself: letters become sets.
class Translator {
 public:
  Translator(const Field& pattern, bool newer) : pattern_(pattern), text_(string(pattern)), newer_(newer) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\')
        escape();
      else if (c == '[')
        set();
      else if (c == '(')
        open_group();
      else if (c == '{')
        brace();
      else if (std::string_view(")|*+?^$.").find(c) != std::string_view::npos)
        sign(c);
      else
        literal(take_code_point());
      if (result_.size() > longest_translation)
        refuse(fmt::format("what takes more than {} bytes in PCRE2's syntax", longest_translation));
    }
    return result_;
  }

 private:
  // What an escape stands for: one code point, members of a set, or what PCRE2 reads as it stands.
  struct Escape {
    std::optional<char32_t> code;
    Members members;
    std::string same;
    std::string shown;  // for messages
  };
  // What a set in brackets has: members, and others of which it has all but the members.
  struct Set {
    bool negated = false;
    std::string members;
    std::vector<std::string> complements;
  };

  [[noreturn]] void refuse(const std::string& what) const { refuse_syntax(pattern_, what); }
  [[noreturn]] void refuse_case(const std::string& what) const { refuse(what + " where case is ignored"); }
  std::string_view rest() const { return text_.substr(at_); }

  char32_t take_code_point() {
    const CodePoint c = read_code_point(rest());
    at_ += c.length;
    return c.value;
  }

  void literal(char32_t c) {
    const bool plain = c < 0x80 && is_alphanumeric(static_cast<char>(c));  // others may be signs
    if (!ignores_case_) {
      result_ += plain ? std::string(1, static_cast<char>(c)) : range_member(c, c);
      return;
    }
    if (c >= 0x80 && has_case(c, c)) refuse_case(fmt::format("U+{:04X}", static_cast<uint32_t>(c)));
    // A letter that is repeated by itself is in no string with the one before.
    const bool repeats = !rest().empty() && std::string_view("*+?").find(rest()[0]) != std::string_view::npos;
    const std::string pair = {previous_, c < 0x80 ? lower(c) : '\0'};
    if (!repeats && std::find(joined_letters.begin(), joined_letters.end(), pair) != joined_letters.end())
      refuse_case("\"" + pair + "\"");
    previous_ = repeats ? '\0' : pair[1];
    const std::string other = other_case(c, c);
    result_ += other.empty() && plain ? std::string(1, static_cast<char>(c)) : "[" + range_member(c, c) + other + "]";
  }

  void sign(char c) {
    // Across groups letters may be joined, across what ignores case otherwise they are not.
    if (c == ')' && !outer_.empty()) {
      if (ignores_case_ != outer_.back()) previous_ = '\0';
      ignores_case_ = outer_.back();
      outer_.pop_back();
    } else if (c != ')') {
      previous_ = '\0';
    }
    result_ += c;
    ++at_;
  }

  void open_group() {
    constexpr std::array groups = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:"};
    const auto begins = [&](const char* group) { return rest().starts_with(group); };
    if (at_ == 0 && begins("(?i)")) {
      ignores_case_ = true;
      at_ += 4;
      return;
    }
    std::string_view group = "(";
    if (begins("(*")) refuse("(*");
    if (begins("(?")) {
      const auto known = std::find_if(groups.begin(), groups.end(), begins);
      if (known == groups.end())
        refuse("the group " + std::string(rest().substr(0, rest().find_first_of(":)", 2) + 1)));
      group = *known;
    }
    at_ += group.size();
    outer_.push_back(ignores_case_);
    if (group == "(?i:" || group == "(?-i:") {
      ignores_case_ = group == "(?i:";
      previous_ = '\0';
      group = "(?:";
    }
    result_ += group;
  }

  // {n}, {n,} or {n,m}, or a brace that stands for itself. Later versions of PCRE2 than 10.42 read more of them.
  void brace() {
    size_t end = at_ + 1;
    bool blanks = false;
    std::array<int, 2> numbers = {0, 0};  // up to most_repeats + 1
    std::array<int, 2> digits = {0, 0};
    size_t commas = 0;
    for (; end < text_.size() && commas < 2; ++end) {
      const char c = text_[end];
      if (is_digit(c)) {
        numbers[commas] = std::min(10 * numbers[commas] + (c - '0'), most_repeats + 1);
        ++digits[commas];
      } else if (c == ',') {
        ++commas;
      } else if (c == ' ' || c == '\t') {
        blanks = true;
      } else {
        break;
      }
    }
    const bool closed = end < text_.size() && text_[end] == '}' && commas < 2;
    if (!closed || digits[0] + digits[1] == 0) return literal(take_code_point());
    if (blanks) refuse("a repeat with blanks");
    if (digits[0] == 0) refuse("{,");
    if (std::max(numbers[0], numbers[1]) > most_repeats) refuse(fmt::format("a repeat of more than {}", most_repeats));
    if (end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '?'))
      refuse(std::string(text_.substr(end, 2)));
    result_ += text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
  }

  void escape() {
    const Escape escape = take_escape();
    if (escape.code) return literal(*escape.code);
    previous_ = '\0';
    if (!escape.same.empty()) {
      result_ += escape.same;
      return;
    }
    const bool word = escape.shown == "\\w" || escape.shown == "\\W";
    result_ += fmt::format("[{}{}{}]", escape.members.all_but ? "^" : "", escape.members.text,
                           word ? lone_word_members() : "");
  }

  // The escape at at_, which is moved behind it.
  Escape take_escape() {
    const size_t begin = at_;
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    Escape result;
    ++at_;
    if (c != '\0' && std::string_view("sSwWdD").find(c) != std::string_view::npos) {
      ++at_;
      result.members = escape_members(static_cast<char>(c | 0x20), newer_);
      result.members.all_but = c < 'a';
    } else if ((c == 'p' || c == 'P' || c == 'x') && rest().substr(1).starts_with('{') &&
               rest().find('}') != std::string_view::npos) {
      const std::string_view name = rest().substr(2, rest().find('}') - 2);
      at_ += name.size() + 3;
      if (c == 'x')
        result.code = hexadecimal(name);
      else
        result.members = property(name, c == 'P');
    } else if (constexpr std::string_view letters = "rntfae", codes = "\r\n\t\f\a\x1b";
               c != '\0' && letters.find(c) != std::string_view::npos) {
      ++at_;
      result.code = static_cast<char32_t>(codes[letters.find(c)]);
    } else if (c == 'A' || c == 'z') {
      ++at_;
      result.same = text_.substr(begin, 2);
    } else {
      if (c == '\0' || is_alphanumeric(c)) refuse(fmt::format("\\{}", c == '\0' ? std::string() : std::string(1, c)));
      result.code = take_code_point();
    }
    result.shown = text_.substr(begin, at_ - begin);
    return result;
  }

  char32_t hexadecimal(std::string_view digits) const {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool all = error == std::errc() && end == digits.data() + digits.size() && digits.size() <= 8;
    if (!all || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) refuse(fmt::format("\\x{{{}}}", digits));
    return value;
  }

  Members property(std::string_view name, bool negated) const {
    const bool not_it = name.starts_with('^');
    const std::optional<Members> found = property_members(name.substr(not_it ? 1 : 0), newer_);
    if (!found) refuse(fmt::format("the property {}", name));
    Members result = *found;
    result.all_but ^= negated != not_it;
    return result;
  }

  // The set at at_, which is moved behind it.
  void set() {
    if (rest().starts_with("[]") || rest().starts_with("[^]")) refuse("a set that begins with ]");
    Set set;
    set.negated = rest().starts_with("[^");
    at_ += set.negated ? 2 : 1;
    enum { nothing, code, range, several } before = nothing;
    while (at_ < text_.size() && text_[at_] != ']') {
      const bool hyphen = text_[at_] == '-' && !rest().starts_with("-]");
      if (hyphen && (before == several || (before == range && rest().starts_with("--"))))
        refuse("a range that begins with no code point");
      const Escape first = take_member();
      if (!first.code) {
        add_class(set, first);
        before = several;
        continue;
      }
      Escape last = first;
      const bool ranges = rest().starts_with('-') && !rest().starts_with("-]") && !(hyphen && before == range);
      if (ranges) {
        ++at_;
        if (at_ == text_.size()) break;
        last = take_member();
        if (!last.code || *last.code < *first.code) refuse("a range that does not end with a later code point");
      }
      before = ranges ? range : code;
      add_range(set, *first.code, *last.code);
    }
    if (at_ == text_.size()) refuse("a set that does not end");
    ++at_;
    previous_ = '\0';
    if (set.complements.empty()) {
      result_ += fmt::format("[{}{}]", set.negated ? "^" : "", set.members);
      return;
    }
    std::string any = set.members.empty() ? "" : "[" + set.members + "]";
    for (const std::string& members : set.complements) any += (any.empty() ? "[^" : "|[^") + members + "]";
    result_ += set.negated ? fmt::format("(?:(?!{})[\\x{{0}}-\\x{{10ffff}}])", any) : fmt::format("(?:{})", any);
  }

  Escape take_member() {
    if (text_[at_] == '[') refuse("a set inside a set");
    if (rest().starts_with("&&")) refuse("an intersection of sets");
    if (text_[at_] == '\\') {
      Escape escape = take_escape();
      if (!escape.same.empty()) refuse(escape.same + " in a set");
      return escape;
    }
    Escape result;
    result.code = take_code_point();
    return result;
  }

  void add_range(Set& set, char32_t first, char32_t last) {
    set.members += range_member(first, last);
    if (!ignores_case_) return;
    if (has_case(first, last))
      refuse_case(fmt::format("a set with U+{:04X}", static_cast<uint32_t>(std::max<char32_t>(first, 0x80))));
    set.members += other_case(first, last);
  }

  void add_class(Set& set, const Escape& escape) {
    const Members& members = escape.members;
    if (ignores_case_) {
      // A set that is not negated would match several code points for one that stands for them, such as ss for its ß.
      const bool several = members.word_like != members.all_but && !set.negated;
      if (several || !members.case_known || (members.all_but && !members.other_case.empty()))
        refuse_case("a set with " + escape.shown);
      set.members += members.other_case;
    }
    if (members.all_but)
      set.complements.push_back(members.text);
    else
      set.members += members.text;
  }

  const Field& pattern_;
  std::string_view text_;
  bool newer_;
  size_t at_ = 0;
  bool ignores_case_ = false;
  std::vector<bool> outer_;  // ignores_case_ around each open group
  char previous_ = '\0';     // the letter before where case is ignored, in small; 0: none that the next may join
  std::string result_;
};

// PCRE2 options under which a translated pattern means what Ruby's means.
constexpr uint32_t ruby_options = PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

Pattern compile_pattern(const std::string& text, uint32_t options, const Field& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  options |= PCRE2_UTF | PCRE2_AUTO_CALLOUT;  // by which a Matcher counts what is done
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error, &offset, context.get());
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
  const json text = fmt::format("[{}\\x{{200c}}\\x{{200d}}]", escape_members('w', true).text);
  const std::string origin = "word characters";
  return compile_pattern(text.get<std::string>(), ruby_options | PCRE2_ANCHORED, {text, origin, ""});
}

}  // namespace npusim::bpe
