// Byte-pair encoding: from the bytes of one piece to tokens.
#pragma once
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace npusim::bpe {

// Appends the ids of a piece of text. Throws bad_input for a byte that the vocabulary cannot express.
void encode_piece(const Tokenizer& tokenizer, std::string_view piece, std::vector<int64_t>& ids);

}  // namespace npusim::bpe
