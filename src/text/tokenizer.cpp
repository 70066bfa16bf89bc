// Encoding text, added tokens first, and decoding ids.
#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/merge.h"
#include "text/split.h"
#include "text/unicode.h"

namespace npusim {
namespace {

using bpe::begins_with_word;
using bpe::encode_piece;
using bpe::is_space;
using bpe::last_character;
using bpe::Matcher;
using bpe::split_text;

// The longest added token at the start of `text`, or null.
const AddedToken* match_added(const AddedTokenTrie& trie, std::string_view text) {
  int node = 0, best = -1;
  for (char c : text) {
    const AddedTokenTrie::Node& from = trie.nodes[static_cast<size_t>(node)];
    if (from.child < 0) break;
    if (from.letter == c) {
      node = from.child;
    } else {
      const auto it = from.others.find(c);
      if (it == from.others.end()) break;
      node = it->second;
    }
    if (trie.nodes[static_cast<size_t>(node)].token >= 0) best = trie.nodes[static_cast<size_t>(node)].token;
  }
  return best < 0 ? nullptr : &trie.tokens[static_cast<size_t>(best)];
}

// Encodes text around the added tokens of `level` and beyond (0: raw, 1: normalized, 2: none are left).
void encode_level(const Tokenizer& tokenizer, std::string_view text, size_t level, Matcher& matcher,
                  std::vector<int64_t>& ids) {
  if (text.empty()) return;
  std::string normal;  // each part between tokens of the raw text is normalized by itself
  if (level == 1 && !tokenizer.normalizations.empty()) {
    normal = text;
    for (const bpe::Normalization form : tokenizer.normalizations) normal = bpe::normalized(normal, form);
    if (normal.size() >= INT32_MAX)
      fail(ErrorKind::bad_input, "text to tokenize: {} bytes are too many", normal.size());
    text = normal;
  }
  if (level == tokenizer.added.size()) {
    std::deque<std::string> prefixed;
    for (std::string_view piece : split_text(tokenizer.splits, text, matcher, prefixed))
      encode_piece(tokenizer, piece, ids);
    return;
  }
  size_t done = 0;
  size_t spaces_from = 0, spaces_until = 0;  // white space behind a token, found once
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = match_added(tokenizer.added[level], text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->length;
    at = end;
    if (token->single_word && ((begin > 0 && begins_with_word(last_character(text.substr(0, begin)), matcher)) ||
                               (end < text.size() && begins_with_word(text.substr(end), matcher))))
      continue;
    if (token->lstrip) begin = std::max(begin, done);  // an earlier token may have taken the white space it stands in
    while (token->lstrip && begin > done) {
      const std::string_view before = last_character(text.substr(0, begin));
      if (!is_space(read_code_point(before).value)) break;
      begin -= before.size();
    }
    if (token->rstrip) {
      if (end < spaces_from || end > spaces_until) spaces_from = spaces_until = end;
      while (spaces_until < text.size()) {
        const CodePoint after = read_code_point(text.substr(spaces_until));
        if (!is_space(after.value)) break;
        spaces_until += after.length;
      }
      end = spaces_until;
    }
    if (begin >= end) continue;  // all of it belongs to an earlier one
    if (begin > done) encode_level(tokenizer, text.substr(done, begin - done), level + 1, matcher, ids);
    ids.push_back(token->id);
    done = end;  // before `end` of an earlier token where this one is in the white space that the earlier one took
  }
  encode_level(tokenizer, text.substr(done), level + 1, matcher, ids);
}

// Moves the code points of `bytes` that are complete to the result, U+FFFD for each ill-formed sequence.
std::string take_text(std::string& bytes) {
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    const CodePoint c = read_code_point(std::string_view(bytes).substr(at));
    if (c.kind == CodePoint::Kind::cut) break;
    if (c.kind == CodePoint::Kind::valid)
      text.append(bytes, at, c.length);
    else
      text += "\uFFFD";
    at += c.length;
  }
  bytes.erase(0, at);
  return text;
}

}  // namespace

std::vector<int64_t> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special_tokens) {
  if (text.size() >= INT32_MAX) fail(ErrorKind::bad_input, "text to tokenize: {} bytes are too many", text.size());
  bpe::check_text(text);
  Matcher matcher(text);
  std::vector<int64_t> ids;
  if (add_special_tokens) ids = tokenizer.prefix;
  encode_level(tokenizer, text, 0, matcher, ids);
  if (add_special_tokens) ids.insert(ids.end(), tokenizer.suffix.begin(), tokenizer.suffix.end());
  return ids;
}

std::string decode(const Tokenizer& tokenizer, std::span<const int64_t> ids, bool skip_special_tokens) {
  TextStream stream;
  std::string text;
  for (int64_t id : ids) text += decode_next(tokenizer, stream, id, skip_special_tokens);
  return text + decode_end(stream);
}

std::string decode_next(const Tokenizer& tokenizer, TextStream& stream, int64_t id, bool skip_special_tokens) {
  const size_t index = static_cast<size_t>(id);  // a negative id is beyond the end
  if (index >= tokenizer.token_bytes.size() || (skip_special_tokens && tokenizer.special[index])) return {};
  stream.pending += tokenizer.token_bytes[index];
  return take_text(stream.pending);
}

std::string decode_end(TextStream& stream) { return std::exchange(stream.pending, {}).empty() ? "" : "\uFFFD"; }

std::optional<int64_t> added_token_id(const Tokenizer& tokenizer, std::string_view content) {
  for (const AddedTokenTrie& trie : tokenizer.added)
    if (const AddedToken* token = match_added(trie, content); token && token->content == content) return token->id;
  return std::nullopt;
}

}  // namespace npusim
