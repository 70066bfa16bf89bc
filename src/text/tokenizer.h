// Byte-level BPE tokenizers from Hugging Face's tokenizer.json (GPT-2, Qwen2, Llama 3 and their kin): text to ids and
// back.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct pcre2_real_code_8;

namespace npusim {

struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool single_word = false, lstrip = false, rstrip = false;
};

// Longest-match lookup of added tokens; node 0 is the root.
struct AddedTokenTrie {
  struct Node {
    std::map<char, int> children;
    int token = -1;  // index into `tokens`
  };
  std::vector<Node> nodes = std::vector<Node>(1);
  std::vector<AddedToken> tokens;
};

enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// One step of the pre-tokenizer: cut every piece at the matches of a pattern, after a space put in front of pieces that
// lack one if `add_prefix_space`. Without a pattern nothing is cut.
struct SplitStep {
  std::shared_ptr<const pcre2_real_code_8> pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
  bool add_prefix_space = false;
};

struct MergeRule {
  int32_t rank = 0;  // position in the file; lower merges first
  int32_t id = 0;    // the merged token
};

// What a tokenizer.json says, with tokens as the bytes they stand for. Ids are the file's.
struct Tokenizer {
  std::string origin;                                    // the file, for errors
  std::vector<std::string> token_bytes;                  // by id; empty for ids that the file does not define
  std::vector<bool> special;                             // by id
  std::array<int32_t, 256> byte_ids{};                   // token of each single byte, -1 for none
  std::unordered_map<uint64_t, MergeRule> merges;        // key: left id << 32 | right id
  std::unordered_map<std::string, int32_t> whole_words;  // by bytes; empty unless the model has ignore_merges
  std::optional<int32_t> unknown;                        // stands for bytes that have no token
  bool fuse_unknown = false;                             // one unknown for a run of such bytes
  bool nfc = false;                                      // the file asks for NFC normalization
  std::array<AddedTokenTrie, 2> added;                   // matched before all else: on the raw, the normalized text
  std::vector<SplitStep> splits;
  std::vector<int64_t> prefix, suffix;  // what the post-processor puts around a single text
};

// Reads tokenizer.json text. `origin` names the file in errors. Throws bad_input for a malformed file and unsupported,
// naming the part, for what is not byte-level BPE: other models, normalizers (but null and NFC), pre-tokenizers (but
// ByteLevel, last in a Sequence of Split and Digits), decoders (but ByteLevel), dropout, byte_fallback, affixes, and
// pattern syntax in which PCRE2 and Oniguruma disagree. Truncation and padding are the caller's and are not applied.
Tokenizer parse_tokenizer(std::string_view text, const std::string& origin);
Tokenizer load_tokenizer(const std::string& path);

// The ids of `text`; tokens such as <|endoftext|> are recognised inside it. `add_special_tokens` adds prefix and
// suffix. Throws bad_input for text that is not UTF-8 or has a byte that the vocabulary cannot express. Limits:
// - With NFC, text that normalization might change (decomposed accents or Hangul, CJK compatibility ideographs,
//   combining marks out of order) is refused as unsupported; all other text is its own NFC.
// - Letters and digits are those of PCRE2's Unicode version (14 in 10.42); newer characters may be cut differently.
std::vector<int64_t> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special_tokens = true);

// The text of `ids`; bytes that are not UTF-8 become U+FFFD. Ids that the file does not define stand for no text, as
// models whose logits are padded to a round size may produce them.
std::string decode(const Tokenizer& tokenizer, std::span<const int64_t> ids, bool skip_special_tokens = true);

// Decoding token by token: the concatenation of all results is decode()'s of all ids. A code point is held back until
// its last byte has come.
struct TextStream {
  std::string pending;  // the start of one code point, at most 3 bytes
};
std::string decode_next(const Tokenizer& tokenizer, TextStream& stream, int64_t id, bool skip_special_tokens = true);
// U+FFFD if the ids ended inside a code point, else nothing.
std::string decode_end(TextStream& stream);

// The id of a token by its text as it stands in the file's added_tokens, such as "<|im_end|>".
std::optional<int64_t> added_token_id(const Tokenizer& tokenizer, std::string_view content);

}  // namespace npusim
