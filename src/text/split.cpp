// Matching patterns and applying what happens to their matches.
#include "text/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace npusim::bpe {
namespace {

// Real patterns need some ten a byte.
constexpr uint64_t tries_per_byte = 50, least_tries = 100'000;

struct Piece {
  size_t begin, end;  // bytes
  bool is_match;
};

// The matches in valid UTF-8, empty ones too unless they are where the last one ended, and the gaps between them, in
// order.
std::vector<Piece> find_pieces(const pcre2_code* pattern, std::string_view text, Matcher& matcher) {
  std::vector<Piece> pieces;
  size_t done = 0;  // where the last match ended
  bool any = false;
  for (size_t from = 0; from <= text.size();) {
    const int count = pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  PCRE2_NO_UTF_CHECK, matcher.data.get(), matcher.context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(matcher.data.get());
    if (count == PCRE2_ERROR_CALLOUT)
      fail(ErrorKind::unsupported,
           "text to tokenize: the split patterns take too long: at byte {} of a piece of {} bytes they are beyond {} "
           "tries for each byte of the text",
           from, text.size(), tries_per_byte);
    if (count < 0 || span[0] < done || span[1] < span[0])
      fail(ErrorKind::unsupported,
           "text to tokenize: the split pattern gave up at byte {} of a piece of {} bytes (PCRE2 error {})", from,
           text.size(), count);
    const bool empty = span[1] == span[0];
    if (span[0] > done) pieces.push_back({done, span[0], false});
    if (!empty || !any || span[1] > done) pieces.push_back({span[0], span[1], true});
    any = true;
    from = done = span[1];
    if (empty) from += from < text.size() ? read_code_point(text.substr(from)).length : 1;
  }
  if (done < text.size()) pieces.push_back({done, text.size(), false});
  return pieces;
}

// Applies the behavior: matches stand alone, vanish, or join the piece before or after them, as in `tokenizers`. Empty
// matches take part in it.
std::vector<Piece> apply_behavior(std::vector<Piece> pieces, SplitBehavior behavior) {
  if (behavior == SplitBehavior::isolated) return pieces;
  if (behavior == SplitBehavior::removed) {
    std::erase_if(pieces, [](const Piece& piece) { return piece.is_match; });
    return pieces;
  }
  const bool backward = behavior == SplitBehavior::merged_with_next;
  if (backward) std::reverse(pieces.begin(), pieces.end());
  std::vector<Piece> result;
  bool previous = false;
  for (const Piece& piece : pieces) {
    const bool joins = behavior == SplitBehavior::contiguous ? piece.is_match == previous : piece.is_match && !previous;
    previous = piece.is_match;
    if (!joins || result.empty())
      result.push_back(piece);
    else if (backward)
      result.back().begin = piece.begin;
    else
      result.back().end = piece.end;
  }
  if (backward) std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace

Matcher::Matcher(std::string_view text)
    : newer(has_newer(text)),
      budget(new Budget{least_tries + tries_per_byte * text.size(), 0}),
      data(pcre2_match_data_create(1, nullptr), pcre2_match_data_free),
      context(pcre2_match_context_create(nullptr), pcre2_match_context_free) {
  // PCRE2's own limits are of one start position, of which a text has as many as bytes.
  pcre2_set_match_limit(context.get(), UINT32_MAX);
  pcre2_set_heap_limit(context.get(), static_cast<uint32_t>(65'536 + text.size() / 4));  // KiB
  const auto count = [](pcre2_callout_block* part, void* data) {
    auto& budget = *static_cast<Budget*>(data);
    const size_t at = part->current_position;
    const uint64_t cost = 1 + (at > budget.position ? at - budget.position : 0);
    budget.position = at;
    if (cost > budget.tries) return static_cast<int>(PCRE2_ERROR_CALLOUT);
    budget.tries -= cost;
    return 0;
  };
  pcre2_set_callout(context.get(), count, budget.get());
}

std::vector<std::string_view> split_text(const std::vector<SplitStep>& steps, std::string_view text, Matcher& matcher,
                                         std::deque<std::string>& prefixed) {
  std::vector<std::string_view> pieces = {text}, next;
  for (const SplitStep& step : steps) {
    next.clear();
    for (std::string_view piece : pieces) {
      if (step.add_prefix_space && !piece.starts_with(' ')) piece = prefixed.emplace_back(" ").append(piece);
      if (!step.pattern) {
        next.push_back(piece);
        continue;
      }
      std::vector<Piece> cut = find_pieces((matcher.newer ? step.newer : step.pattern).get(), piece, matcher);
      if (step.invert)
        for (Piece& part : cut) part.is_match = !part.is_match;
      for (const Piece& part : apply_behavior(std::move(cut), step.behavior))
        if (part.end > part.begin) next.push_back(piece.substr(part.begin, part.end - part.begin));
    }
    std::swap(pieces, next);
  }
  return pieces;
}

bool begins_with_word(std::string_view text, Matcher& matcher) {
  static const Pattern pattern = word_pattern();
  return pcre2_match(pattern.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, PCRE2_NO_UTF_CHECK,
                     matcher.data.get(), nullptr) > 0;
}

}  // namespace npusim::bpe
