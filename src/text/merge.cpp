// Merging bytes into tokens, lowest rank first.
#include "text/merge.h"

#include <functional>
#include <queue>
#include <tuple>

#include "base/error.h"

namespace npusim::bpe {
namespace {

struct Symbol {
  int32_t id;
  int32_t previous, next;  // indices of the neighbours, -1 at the ends
  bool alive = true;
};

struct Candidate {
  int32_t rank, left, id;  // merges the symbols `left` and its next into token `id`
  bool operator>(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
};

// One symbol per byte.
std::vector<Symbol> byte_symbols(const Tokenizer& tokenizer, std::string_view piece) {
  std::vector<Symbol> symbols;
  bool in_unknown = false;
  for (char c : piece) {
    int32_t id = tokenizer.byte_ids[static_cast<unsigned char>(c)];
    const bool known = id >= 0;
    if (!known) {
      if (!tokenizer.unknown)
        fail(ErrorKind::bad_input, "text to tokenize: {} has no token for byte 0x{:02x} and no unk_token",
             tokenizer.origin, c & 0xff);
      id = *tokenizer.unknown;
    }
    if (known || !in_unknown || !tokenizer.fuse_unknown) {
      const int32_t index = static_cast<int32_t>(symbols.size());
      symbols.push_back({id, index - 1, index + 1});
    }
    in_unknown = !known;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

}  // namespace

// Applies the merges by rank, leftmost first, in O(n log n): every merge makes at most two new candidates, and those
// that another merge has outdated are dropped when they come up.
void encode_piece(const Tokenizer& tokenizer, std::string_view piece, std::vector<int64_t>& ids) {
  if (!tokenizer.whole_words.empty())
    if (const auto it = tokenizer.whole_words.find(std::string(piece)); it != tokenizer.whole_words.end()) {
      ids.push_back(it->second);
      return;
    }
  std::vector<Symbol> symbols = byte_symbols(tokenizer, piece);
  const auto find_merge = [&](const Symbol& left) -> const MergeRule* {
    if (left.next < 0) return nullptr;
    const auto it = tokenizer.merges.find(static_cast<uint64_t>(left.id) << 32 |
                                          static_cast<uint64_t>(symbols[static_cast<size_t>(left.next)].id));
    return it == tokenizer.merges.end() ? nullptr : &it->second;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto propose = [&](int32_t left) {
    if (left < 0) return;
    if (const MergeRule* rule = find_merge(symbols[static_cast<size_t>(left)]))
      queue.push({rule->rank, left, rule->id});
  };
  for (size_t i = 0; i < symbols.size(); ++i) propose(static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    const MergeRule* rule = left.alive ? find_merge(left) : nullptr;
    if (!rule || rule->id != best.id) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    right.alive = false;
    left.id = best.id;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.left;
    propose(left.previous);
    propose(best.left);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.alive) ids.push_back(symbol.id);
}

}  // namespace npusim::bpe
