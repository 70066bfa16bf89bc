// Tokens, matching brackets, attributes, messages.
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "scan.h"

namespace mslx {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

}  // namespace

void Scan::report(const char* severity, int line, const std::string& message) {
  fprintf(stderr, "%s:%d: %s: %s\n", file_.c_str(), line, severity, message.c_str());
  if (std::string(severity) == "error") ++errors_;
}

size_t Scan::lex_number(size_t at) const {
  const bool hex = source_[at] == '0' && at + 1 < source_.size() && (source_[at + 1] | 32) == 'x';
  size_t i = at;
  for (; i < source_.size(); ++i) {
    const char c = source_[i];
    const bool sign = (c == '+' || c == '-') && i > at && (source_[i - 1] | 32) == 'e' && !hex;
    if (!in_word(c) && c != '.' && !sign) break;
  }
  return i;
}

void Scan::lex() {
  const size_t n = source_.size();
  int line = 1;
  bool line_start = true;
  auto push = [&](size_t begin, size_t end, char kind) {
    tokens_.push_back({source_.substr(begin, end - begin), begin, line, kind});
  };
  for (size_t i = 0; i < n;) {
    const char c = source_[i];
    if (c == '\n') {
      ++line;
      ++i;
      line_start = true;
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
      continue;
    }
    if (line_start && c == '#') {  // # 12 "file"
      const size_t end = std::min(source_.find('\n', i), n);
      char name[512];
      int number = 0;
      if (sscanf(source_.substr(i, end - i).c_str(), "# %d \"%511[^\"]\"", &number, name) == 2) {
        line = number - 1;
        file_ = name;
      }
      i = end;
      continue;
    }
    line_start = false;
    const size_t begin = i;
    if (source_.compare(i, 2, "//") == 0) {
      i = std::min(source_.find('\n', i), n);
    } else if (source_.compare(i, 2, "/*") == 0) {
      const size_t end = std::min(source_.find("*/", i), n - 2) + 2;
      line += static_cast<int>(
          std::count(source_.begin() + static_cast<long>(i), source_.begin() + static_cast<long>(end), '\n'));
      i = end;
    } else if (starts_word(c)) {
      while (i < n && in_word(source_[i])) ++i;
      push(begin, i, 'i');
    } else if (digit(c) || (c == '.' && i + 1 < n && digit(source_[i + 1]))) {
      i = lex_number(i);
      push(begin, i, 'n');
    } else if (c == '"' || c == '\'') {
      for (++i; i < n && source_[i] != c; ++i)
        if (source_[i] == '\\') ++i;
      i = std::min(i + 1, n);
      push(begin, i, 's');
    } else {
      i += source_.compare(i, 2, "::") == 0 || source_.compare(i, 2, "->") == 0 ? 2 : 1;
      push(begin, i, 'p');
    }
  }
  tokens_.push_back({"", n, line, 'E'});
}

size_t Scan::match(size_t i) const {
  const std::string open = tokens_[i].text, close = open == "(" ? ")" : open == "[" ? "]" : "}";
  int depth = 0;
  for (; i < tokens_.size(); ++i) {
    if (tokens_[i].text == open)
      ++depth;
    else if (tokens_[i].text == close && --depth == 0)
      return i;
  }
  return tokens_.size() - 1;
}

size_t Scan::match_angle(size_t i) const {
  int depth = 0;
  for (; i < tokens_.size(); ++i) {
    if (is(i, "<"))
      ++depth;
    else if (is(i, ">") && --depth == 0)
      return i;
    else if (is(i, "("))
      i = match(i);
    else if (is(i, ";") || is(i, "{"))
      return 0;
  }
  return 0;
}

bool Scan::attribute_at(size_t i) const {
  return is(i, "[") && is(i + 1, "[") && tokens_[i + 1].offset == tokens_[i].offset + 1;
}

std::string Scan::text(size_t begin, size_t end) const {
  std::string joined;
  for (size_t i = begin; i < end; ++i) joined += (i > begin ? " " : "") + tokens_[i].text;
  return joined;
}

std::vector<Attribute> Scan::attributes_at(size_t i) const {
  std::vector<Attribute> found;
  const size_t end = match(i) - 1;
  for (size_t k = i + 2; k < end; ++k) {
    if (!is_word(k)) continue;
    Attribute a{tokens_[k].text, ""};
    if (is(k + 1, "(")) {
      const size_t close = match(k + 1);
      a.argument = text(k + 2, close);
      k = close;
    }
    found.push_back(a);
  }
  return found;
}

std::string Scan::blank(size_t offset, size_t length) const {
  std::string spaces = source_.substr(offset, length);
  for (char& c : spaces)
    if (c != '\n') c = ' ';
  return spaces;
}

}  // namespace mslx
