// The parts of a tokenizer.json, each read into what a Tokenizer holds.
#pragma once
#include <vector>

#include "text/field.h"
#include "text/tokenizer.h"

namespace npusim::bpe {

int32_t token_id(const Field& field);

// The vocabulary, the merges and what stands for unknown bytes. `defined`: the ids that have a token.
void parse_model(Tokenizer& tokenizer, std::vector<bool>& defined, const Field& model);
void parse_added_tokens(Tokenizer& tokenizer, std::vector<bool>& defined, const nlohmann::json& vocab,
                        const Field& list);

}  // namespace npusim::bpe
