// Reads the words of one line of graph text.
#pragma once
#include <charconv>
#include <string>
#include <string_view>

#include "base/error.h"

namespace npusim {

struct Cursor {
  std::string_view text;
  int line = 0;
  size_t at = 0;

  [[noreturn]] void expected(std::string_view what) const {
    const std::string_view rest = text.substr(at, 30);
    fail(ErrorKind::bad_input, "graph text, line {}, column {}: expected {}, found {}", line, at + 1, what,
         rest.empty() ? "the end of the line" : fmt::format("'{}'", rest));
  }
  void skip_spaces() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool at_end() {
    skip_spaces();
    return at == text.size();
  }
  bool peek(char c) {
    skip_spaces();
    return at < text.size() && text[at] == c;
  }
  bool accept(char c) {
    if (!peek(c)) return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) expected(fmt::format("'{}'", c));
  }
  std::string_view word() {
    skip_spaces();
    const size_t begin = at;
    auto plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
             c == '+' || c == '-' || c == '<' || c == '>';
    };
    while (at < text.size() && plain(text[at])) ++at;
    if (begin == at) expected("a name");
    return text.substr(begin, at - begin);
  }
  std::string quoted() {
    expect('"');
    std::string result;
    while (at < text.size() && text[at] != '"') {
      if (text[at] != '\\') {
        result += text[at++];
        continue;
      }
      const std::string_view escape = text.substr(at, 4);
      unsigned byte = 0;
      if (escape.size() >= 2 && (escape[1] == '"' || escape[1] == '\\')) {
        result += escape[1];
        at += 2;
      } else if (escape.size() == 4 && escape[1] == 'x' &&
                 std::from_chars(&escape[2], &escape[2] + 2, byte, 16).ptr == &escape[2] + 2) {
        result += static_cast<char>(byte);
        at += 4;
      } else {
        expected("an escape");
      }
    }
    expect('"');
    return result;
  }
  std::string name() {
    if (peek('"')) return quoted();
    return std::string(word());
  }
};

}  // namespace npusim
