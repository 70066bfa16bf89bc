// Text of messages: what stands in a file made harmless to a terminal, and the known name that a wrong one was meant to
// be.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "npusim/export.h"

namespace npusim {

// One line without what a terminal obeys or a reader cannot see: control characters, line and paragraph separators,
// the marks that turn the direction of text and what is no character stand as \n, \u001b or \u202e, bytes that are no
// UTF-8 as \xff.
NPUSIM_API std::string printable(std::string_view text);
// The same of a text of several lines, whose ends stay. JSON keeps its meaning.
NPUSIM_API std::string printable_lines(std::string_view text);

// The text, in which bytes that are no UTF-8 stand as \xff: for JSON, and for whoever takes strings of UTF-8 alone.
NPUSIM_API std::string valid_utf8(std::string_view text);

// "; did you mean --seed?" for a word that is a few letters from a known one; "" where none is near.
NPUSIM_API std::string did_you_mean(std::string_view word, std::span<const std::string> known);
template <typename Names>
std::string did_you_mean(std::string_view word, const Names& known) {
  const std::vector<std::string> names(std::begin(known), std::end(known));
  return did_you_mean(word, std::span<const std::string>(names));
}

}  // namespace npusim
