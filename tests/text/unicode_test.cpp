// Normalization: its laws on random text of all scripts. python/tests compares with Python's own.
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/unicode_tables.h"

namespace npusim::bpe {
namespace {

std::string utf8(char32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  std::string text;
  const int tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  text += static_cast<char>((tails == 1 ? 0xc0 : tails == 2 ? 0xe0 : 0xf0) | c >> 6 * tails);
  for (int i = tails - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> 6 * i & 0x3f));
  return text;
}

// Half of it is what normalization looks at: parts, wholes and marks in no order.
std::string random_text(std::mt19937& random) {
  const auto below = [&](size_t n) { return random() % n; };
  std::string text;
  for (size_t i = 0, count = 1 + below(12); i < count; ++i) {
    const auto& parts = canonical_decompositions()[below(canonical_decompositions().size())];
    const auto& marks = combining_classes()[below(combining_classes().size())];
    const char32_t any = static_cast<char32_t>(below(0x110000));
    const char32_t hangul[] = {static_cast<char32_t>(0x1100 + below(19)), static_cast<char32_t>(0x1161 + below(21)),
                               static_cast<char32_t>(0x11a7 + below(28)), static_cast<char32_t>(0xac00 + below(11172))};
    const char32_t choices[] = {any,         parts.code, parts.first,      parts.second ? parts.second : 'a',
                                marks.first, marks.last, hangul[below(4)], 'a'};
    const char32_t c = choices[below(8)];
    text += utf8(c >= 0xd800 && c < 0xe000 ? U'x' : c);
  }
  return text;
}

TEST(Unicode, NormalizationKeepsItsLaws) {
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random);
    const std::string nfc = normalized(text, Normalization::nfc), nfd = normalized(text, Normalization::nfd);
    EXPECT_TRUE(is_utf8(nfc) && is_utf8(nfd));
    EXPECT_EQ(normalized(nfc, Normalization::nfc), nfc) << text;
    EXPECT_EQ(normalized(nfd, Normalization::nfd), nfd) << text;
    EXPECT_EQ(normalized(nfd, Normalization::nfc), nfc) << text;
    EXPECT_EQ(normalized(nfc, Normalization::nfd), nfd) << text;
  }
}

TEST(Unicode, LongRunsOfMarksAreNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 300'000; ++i) text += i % 2 ? "\u0301" : "\u0323";
  const std::string nfc = normalized(text, Normalization::nfc);
  EXPECT_TRUE(nfc.starts_with("\u1ea1\u0323"));
  EXPECT_EQ(nfc.size(), text.size());
}

TEST(Unicode, TablesAreSorted) {
  const auto ascending = [](const auto& list, auto key) {
    return std::is_sorted(list.begin(), list.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  };
  EXPECT_TRUE(ascending(canonical_decompositions(), [](const Decomposition& d) { return d.code; }));
  EXPECT_TRUE(ascending(excluded_compositions(), [](char32_t c) { return c; }));
  EXPECT_TRUE(ascending(combining_classes(), [](const CombiningRange& r) { return r.first; }));
  EXPECT_TRUE(ascending(newer_than_14(), [](const NewerRange& r) { return r.first; }));
}

}  // namespace
}  // namespace npusim::bpe
