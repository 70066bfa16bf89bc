// The pre-tokenizer: cutting text into the pieces that merges stay within.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace npusim::bpe {

// The scratch memory of one encode() call on a text, and how much all its matches together may do: patterns are as
// hostile as their file.
struct Matcher {
  explicit Matcher(std::string_view text);
  Matcher(const Matcher&) = delete;
  bool newer;  // the text has code points that PCRE2 may not know
  struct Budget {
    uint64_t tries;   // parts of patterns that may still be tried, and bytes that they may walk along
    size_t position;  // where the last one began
  };
  std::unique_ptr<Budget> budget;
  std::unique_ptr<pcre2_real_match_data_8, void (*)(pcre2_real_match_data_8*)> data;
  std::unique_ptr<pcre2_real_match_context_8, void (*)(pcre2_real_match_context_8*)> context;
};

// The pieces of valid UTF-8 after every step, in order. They borrow `text` and `prefixed`, which keeps those that got a
// space in front.
std::vector<std::string_view> split_text(const std::vector<SplitStep>& steps, std::string_view text, Matcher& matcher,
                                         std::deque<std::string>& prefixed);

// Whether the text begins with a code point that a single_word token must not touch.
bool begins_with_word(std::string_view text, Matcher& matcher);

}  // namespace npusim::bpe
