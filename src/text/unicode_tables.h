// Data of Unicode: what normalization needs, and the code points that are newer than PCRE2's tables may be.
#pragma once
#include <span>

namespace npusim::bpe {

// A code point that canonically decomposes into one or two others, sorted by `code`. Hangul syllables are not among
// them.
struct Decomposition {
  char32_t code, first, second;  // 0: there is no second
};
std::span<const Decomposition> canonical_decompositions();
// Those with two parts that are not composed of them again, sorted.
std::span<const char32_t> excluded_compositions();

// Code points of a canonical combining class other than 0, sorted.
struct CombiningRange {
  char32_t first, last;
  unsigned char combining;
};
std::span<const CombiningRange> combining_classes();

// Code points assigned after Unicode 14, with their general category and script; sorted.
struct NewerRange {
  char32_t first, last;
  const char* category;     // "Lo"
  const char* script;       // "Han"
  const char* script_code;  // "Hani"
};
std::span<const NewerRange> newer_than_14();

}  // namespace npusim::bpe
