// Split patterns: written for Oniguruma's Ruby syntax, run by PCRE2.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "text/field.h"

struct pcre2_real_code_8;

namespace npusim::bpe {

using Pattern = std::shared_ptr<const pcre2_real_code_8>;

// A pattern of the file; syntax that PCRE2 would accept with another meaning is refused. With `newer`, properties have
// the code points of newer_than_14() whatever PCRE2's own tables are, which takes longer to match.
Pattern compile_regex(const Field& pattern, bool newer);
// Text that stands for itself.
Pattern compile_literal(const Field& text);
// One code point, at the start of a text, that belongs to a word.
Pattern word_pattern();

}  // namespace npusim::bpe
