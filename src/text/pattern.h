// Split patterns: written for Oniguruma's Ruby syntax, run by PCRE2.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "text/field.h"

struct pcre2_real_code_8;

namespace npusim::bpe {

using Pattern = std::shared_ptr<const pcre2_real_code_8>;

// A pattern of the file; syntax that PCRE2 would accept with another meaning is refused.
Pattern compile_regex(const Field& pattern);
// Text that stands for itself.
Pattern compile_literal(const Field& text);
// The same pattern given by this code; `place` is named in errors.
Pattern compile_own(const char* text, const Field& place);
// One code point, at the start of a text, that belongs to a word.
Pattern word_pattern();

}  // namespace npusim::bpe
