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

#include "npusim/text.h"
#include "text/unicode.h"

struct pcre2_real_code_8;

namespace npusim {

struct AddedToken {
  std::string content;
  size_t length = 0;  // bytes of it in the text where it is looked for
  int64_t id = 0;
  bool single_word = false, lstrip = false, rstrip = false;
};

// Longest-match lookup of added tokens; node 0 is the root.
struct AddedTokenTrie {
  struct Node {
    char letter = 0;  // of the first child
    int child = -1;   // the first, most nodes' only one
    std::map<char, int> others;
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
  std::shared_ptr<const pcre2_real_code_8>
      newer;  // the same, slower, for texts with code points that PCRE2 may not know
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
  std::vector<bpe::Normalization> normalizations;        // of a text, one after the other
  std::array<AddedTokenTrie, 2> added;                   // matched before all else: on the raw, the normalized text
  std::vector<SplitStep> splits;
  std::vector<int64_t> prefix, suffix;  // what the post-processor puts around a single text
};

// Far above what tokenizers have, and few enough that encoding takes time linear in the text.
inline constexpr size_t longest_added_token = 256;  // bytes
inline constexpr size_t most_parts = 64;            // of a normalizer, a pre-tokenizer or a post-processor
inline constexpr size_t most_template_tokens = 4096;

// make_tokenizer and open_tokenizer, by value.
Tokenizer parse_tokenizer(std::string_view text, const std::string& origin);
Tokenizer load_tokenizer(const std::string& path);

}  // namespace npusim
