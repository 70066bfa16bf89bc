// Text: byte-level BPE tokenizers, and generation with a program that has a method for one token and usually one for
// many.
// The one header whose functions need PCRE2; npusim::runtime has none of them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "npusim/session.h"

namespace npusim {

// A Hugging Face tokenizer.json of byte-level BPE (GPT-2, Qwen2, Llama 3 and their kin). It never changes; any number
// of threads may use one.
struct Tokenizer;

// From a file, or from its text, which `origin` names in messages. Throws bad_input for a malformed file and
// unsupported, naming the part, for what is not byte-level BPE: other models, normalizers (but null, NFC, NFD and
// sequences of them), pre-tokenizers (but ByteLevel, last in a Sequence of Split and Digits), decoders (but ByteLevel),
// dropout, byte_fallback, affixes, and pattern syntax in which PCRE2 and Oniguruma disagree. Added tokens have the ids
// that `tokenizers` gives them: those of the vocabulary, or the next numbers behind its size; a file that says others
// is malformed. Truncation and padding are the caller's and are not applied.
NPUSIM_API std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path);
NPUSIM_API std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view text, const std::string& origin);

// The ids of `text`; tokens such as <|endoftext|> are recognised inside it. `add_special_tokens` adds what the file
// puts around a text. Throws bad_input for text that is not UTF-8 or has a byte that the vocabulary cannot express.
// Normalization, letters, digits and scripts are those of Unicode 18, or of PCRE2 where that is newer.
NPUSIM_API std::vector<int64_t> encode(const Tokenizer& tokenizer, std::string_view text,
                                       bool add_special_tokens = true);

// The text of `ids`; bytes that are not UTF-8 become U+FFFD. Ids that the file does not define stand for no text, as
// models whose logits are padded to a round size may produce them.
NPUSIM_API std::string decode(const Tokenizer& tokenizer, std::span<const int64_t> ids,
                              bool skip_special_tokens = true);

// Decoding token by token: the concatenation of all results is decode()'s of all ids. A code point is held back until
// its last byte has come.
struct TextStream {
  std::string pending;  // the start of one code point, at most 3 bytes
};
NPUSIM_API std::string decode_next(const Tokenizer& tokenizer, TextStream& stream, int64_t id,
                                   bool skip_special_tokens = true);
// U+FFFD if the ids ended inside a code point, else nothing.
NPUSIM_API std::string decode_end(TextStream& stream);

// The id of a token by its text as it stands in the file's added_tokens, such as "<|im_end|>".
NPUSIM_API std::optional<int64_t> added_token_id(const Tokenizer& tokenizer, std::string_view content);
// eos_token_id of the generation_config.json beside `tokenizer_path`; empty when there is none.
NPUSIM_API std::vector<int64_t> read_stop_tokens(const std::string& tokenizer_path);

// Throws unsupported, each problem naming what is missing or not understood, when the program is no language model that
// generate() can run.
NPUSIM_API void check_text_model(const Program& program);

struct GenerateOptions {
  int64_t max_new_tokens = 64;  // from 1 to 2^40
  // From 0, the likeliest token, to 100. Unless it is set, asking for a way of sampling is asking to sample: 1 where
  // top_p or seed is set, else 0.
  std::optional<double> temperature = {};
  std::optional<double> top_p = {};   // above 0, and at most 1, which it is unless it is set
  std::optional<uint64_t> seed = {};  // 0 unless it is set
  std::vector<int64_t> stop_tokens = {};
};
// Throws usage with a problem for each option that is out of its range, at the option's name. generate() does, too.
NPUSIM_API void check_options(const GenerateOptions& options);

struct Generation {
  std::vector<int64_t> tokens;     // new ones, a stop token included
  double prefill_ms = 0;           // until the first new token
  double decode_ms_per_token = 0;  // mean of the others
};

// Calls `on_token` for each new token. Ends at a stop token, after max_new_tokens, or when the states are full.
// Throws bad_input for a prompt that is empty or does not fit, and for tokens that are not in the vocabulary.
NPUSIM_API Generation generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                               const std::function<void(int64_t)>& on_token = {});

}  // namespace npusim
