// The tokens of a tokenizer.json: the model's vocabulary and merges, and the tokens added to it.
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/file.h"
#include "text/unicode.h"

namespace npusim::bpe {
namespace {

using nlohmann::json;

constexpr int64_t id_limit = 1 << 22;  // far above any vocabulary; bounds the memory that a hostile id can ask for

// GPT-2 writes each byte of a token as one printable character: itself if printable Latin-1, else U+0100 upward.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    characters[b] = printable ? b : next++;
  }
  return characters;
}

// The bytes that a token of the file stands for; none where a character stands for no byte.
std::optional<std::string> mapped_bytes(std::string_view token) {
  static const std::array<int, 512> bytes = [] {
    std::array<int, 512> inverse;
    inverse.fill(-1);
    const auto characters = byte_characters();
    for (size_t b = 0; b < 256; ++b) inverse[characters[b]] = static_cast<int>(b);
    return inverse;
  }();
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = read_code_point(token.substr(at));
    if (c.value >= bytes.size() || bytes[c.value] < 0) return std::nullopt;
    result += static_cast<char>(bytes[c.value]);
    at += c.length;
  }
  return result;
}

// What decoding makes of a token: one with a character that stands for no byte is taken literally.
std::string bytes_of_token(std::string_view token) { return mapped_bytes(token).value_or(std::string(token)); }

void define_token(Tokenizer& tokenizer, std::vector<bool>& defined, const Field& field, int32_t id,
                  std::string_view token) {
  const size_t index = static_cast<size_t>(id);
  if (index >= defined.size()) {
    defined.resize(index + 1);
    tokenizer.token_bytes.resize(index + 1);
    tokenizer.special.resize(index + 1);
  }
  if (defined[index])
    fail(ErrorKind::bad_input, "{}: token {} has id {}, which is taken", where(field), json_quoted(token), id);
  defined[index] = true;
  tokenizer.token_bytes[index] = bytes_of_token(token);
}

int32_t vocabulary_id(const json& vocab, const std::string& token, const Field& user) {
  const auto it = vocab.find(token);
  if (it == vocab.end())
    fail(ErrorKind::bad_input, "{}: token {} is not in model.vocab", where(user), json_quoted(token));
  return it->get<int32_t>();
}

void parse_merges(Tokenizer& tokenizer, const json& vocab, const Field& merges) {
  if (!merges.value.is_array()) expected(merges, "an array");
  for (size_t rank = 0; rank < merges.value.size(); ++rank) {
    const Field merge = {merges.value[rank], merges.origin, fmt::format("{}[{}]", merges.path, rank)};
    std::string left, right;
    if (merge.value.is_array() && merge.value.size() == 2 && merge.value[0].is_string() && merge.value[1].is_string()) {
      left = merge.value[0].get<std::string>();
      right = merge.value[1].get<std::string>();
    } else if (merge.value.is_string()) {
      const std::string& pair = string(merge);
      if (pair.starts_with("#version")) continue;
      const size_t space = pair.find(' ');
      if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos)
        fail(ErrorKind::bad_input, "{}: expected two tokens around one space, found {}", where(merge),
             json_quoted(pair));
      left = pair.substr(0, space);
      right = pair.substr(space + 1);
    } else {
      expected(merge, "\"left right\" or [\"left\", \"right\"]");
    }
    const auto left_id = static_cast<uint64_t>(vocabulary_id(vocab, left, merge));
    const auto right_id = static_cast<uint64_t>(vocabulary_id(vocab, right, merge));
    tokenizer.merges[left_id << 32 | right_id] = {static_cast<int32_t>(rank),
                                                  vocabulary_id(vocab, left + right, merge)};
  }
}

}  // namespace

int32_t token_id(const Field& field) {
  if (!field.value.is_number_unsigned() || field.value.get<uint64_t>() >= id_limit)
    expected(field, fmt::format("a token id below {}", id_limit));
  return field.value.get<int32_t>();
}

void parse_model(Tokenizer& tokenizer, std::vector<bool>& defined, const Field& model) {
  const Field type = member(model, "type");
  if (!type.value.is_null() && type.value != "BPE") unsupported(type, "\"BPE\"");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Field affix = member(model, key); !affix.value.is_null() && affix.value != "") unsupported(affix, "none");
  if (const Field dropout = member(model, "dropout"); !dropout.value.is_null() && dropout.value != 0)
    unsupported(dropout, "null");
  if (const Field fallback = member(model, "byte_fallback"); boolean(fallback, false)) unsupported(fallback, "false");

  const Field vocab = member(model, "vocab");
  if (!vocab.value.is_object()) expected(vocab, "an object");
  for (const auto& [token, id] : vocab.value.items()) {
    const Field field = {id, vocab.origin, vocab.path + "[" + json_quoted(token) + "]"};
    define_token(tokenizer, defined, vocab, token_id(field), token);
  }
  tokenizer.byte_ids.fill(-1);
  const auto characters = byte_characters();
  for (size_t b = 0; b < 256; ++b) {
    const std::string character = characters[b] < 0x80 ? std::string(1, static_cast<char>(b))
                                                       : std::string{static_cast<char>(0xc0 | characters[b] >> 6),
                                                                     static_cast<char>(0x80 | (characters[b] & 0x3f))};
    if (const auto it = vocab.value.find(character); it != vocab.value.end())
      tokenizer.byte_ids[b] = it->get<int32_t>();
  }
  parse_merges(tokenizer, vocab.value, member(model, "merges"));
  if (const Field unknown = member(model, "unk_token"); !unknown.value.is_null())
    tokenizer.unknown = vocabulary_id(vocab.value, string(unknown), unknown);
  tokenizer.fuse_unknown = boolean(member(model, "fuse_unk"), false);
  if (boolean(member(model, "ignore_merges"), false))
    for (const auto& [token, id] : vocab.value.items())  // no piece of text is a token that is taken literally
      if (const auto bytes = mapped_bytes(token)) tokenizer.whole_words.emplace(*bytes, id.get<int32_t>());
}

void parse_added_tokens(Tokenizer& tokenizer, std::vector<bool>& defined, const json& vocab, const Field& list) {
  if (list.value.is_null()) return;
  auto next_id = static_cast<int64_t>(vocab.size());
  std::set<std::string> contents;
  for (const Field& field : elements(list)) {
    AddedToken token;
    token.content = string(member(field, "content"));
    token.id = token_id(member(field, "id"));
    token.single_word = boolean(member(field, "single_word"), false);
    token.lstrip = boolean(member(field, "lstrip"), false);
    token.rstrip = boolean(member(field, "rstrip"), false);
    if (token.content.empty()) fail(ErrorKind::bad_input, "{}.content: expected text, found none", where(field));
    if (token.content.size() > longest_added_token)
      fail(ErrorKind::unsupported, "{}.content: expected at most {} bytes, found {}", where(field), longest_added_token,
           token.content.size());
    if (!contents.insert(token.content).second)
      fail(ErrorKind::bad_input, "{}: duplicate token {}", where(field), json_quoted(token.content));
    if (const auto it = vocab.find(token.content); it == vocab.end()) {
      // `tokenizers` numbers them itself, whatever the file says.
      if (token.id != next_id)
        fail(ErrorKind::bad_input,
             "{}: token {} has id {}, expected {}: the tokens of model.vocab and those added before", where(field),
             json_quoted(token.content), token.id, next_id);
      define_token(tokenizer, defined, field, static_cast<int32_t>(token.id), token.content);
      ++next_id;
    } else if (it->get<int64_t>() != token.id) {
      fail(ErrorKind::bad_input, "{}: token {} has id {}, but {} in model.vocab", where(field),
           json_quoted(token.content), token.id, it->get<int64_t>());
    }
    tokenizer.special[static_cast<size_t>(token.id)] = boolean(member(field, "special"), false);
    const bool normalized = boolean(member(field, "normalized"), false);
    AddedTokenTrie& trie = tokenizer.added[normalized ? 1 : 0];
    // What is looked for in normalized text is normalized too, and so is what it gives back.
    std::string shown = token.content;
    if (normalized)
      for (const Normalization form : tokenizer.normalizations) shown = bpe::normalized(shown, form);
    token.length = shown.size();
    tokenizer.token_bytes[static_cast<size_t>(token.id)] = bytes_of_token(shown);
    int node = 0;
    for (char c : shown) {
      AddedTokenTrie::Node& from = trie.nodes[static_cast<size_t>(node)];
      const auto fresh = static_cast<int>(trie.nodes.size());
      if (from.child < 0) from.letter = c, from.child = fresh;
      node = from.letter == c ? from.child : from.others.try_emplace(c, fresh).first->second;
      if (node == fresh) trie.nodes.emplace_back();
    }
    int& leaf = trie.nodes[static_cast<size_t>(node)].token;
    if (leaf >= 0)
      fail(ErrorKind::bad_input, "{}: {} is the same in normalized text as {}", where(field),
           json_quoted(token.content), json_quoted(trie.tokens[static_cast<size_t>(leaf)].content));
    leaf = static_cast<int>(trie.tokens.size());
    trie.tokens.push_back(std::move(token));
  }
}

}  // namespace npusim::bpe
