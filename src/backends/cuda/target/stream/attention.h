// Attention of a few query rows: blocks share the keys, and what they find is merged.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernel/facts/attention_axes.h"
#include "print/dialect.h"

namespace npusim::cuda {

inline constexpr int64_t quad_columns = 4;  // of a thread

struct StreamAttention {
  AttentionAxes axes;
  bool multiplied = false;  // by tensor cores: queries of 16 bits like keys, and no row has keys of its own number
  bool by_warps = false;    // then each warp has keys of its own where a split has several chunks to read
  int64_t splits = 1;       // of the keys of each batch, which take chunks in turns
  int64_t looks = 0;        // chunks of a split of which each is looked at before it is read; 0: none is
  int32_t mask = -1;        // what is added to a score whatever the dot is, among the score's expressions; -1: nothing
  int64_t partial_bytes = 0;  // of all splits: sums of the columns, the largest score and the sum of weights
  int64_t shared_bytes = 0;   // of a block

  static constexpr int64_t chunk = 32;          // keys that a block looks at together: a lane each
  static constexpr int64_t scores = chunk + 1;  // floats between rows of scores
  static constexpr int64_t score_pitch = 40;    // the same, where two of four lanes are read at once
  static constexpr int64_t unit = 32;           // elements of a key that tensor cores take at once
  static constexpr int64_t row_pad = 16;  // bytes between keys, so that threads of neighbouring keys meet in no bank

  const Access& keys(const Kernel& k) const { return axes.swapped ? k.contraction->score->a : k.contraction->score->b; }
  const Access& queries(const Kernel& k) const {
    return axes.swapped ? k.contraction->score->b : k.contraction->score->a;
  }
  // By warps, two of which share a chunk: so many chunks of a split go at once.
  static constexpr int64_t own_keys = chunk / 2, at_once = 4;
  int64_t own_warps() const { return 2 * std::min(chunks(), at_once); }
  int64_t own_pitch() const { return axes.columns.size() + 4; }  // floats of a row of what a warp found

  // Of a split, at most.
  int64_t chunks() const { return ((axes.keys.size() + chunk - 1) / chunk + splits - 1) / splits; }
  // A byte for each chunk, for one block that had all splits.
  int64_t seen_bytes() const { return axes.batch.size() * splits * looks; }
  // Of a chunk's values, scores, and what each row is at, in whole words.
  int64_t common_bytes() const {
    return (chunk * axes.columns.size() * 2 + axes.rows.size() * (scores + 4) * 4 + 15) / 16 * 16;
  }
};
std::optional<StreamAttention> find_stream_attention(const Kernel& kernel, std::string& why);

// The score, stored where its one written argument says, with an expression that is given behind the dot or without one
// (-1); and the number of keys likewise, if the kernel counts them.
Kernel stored_score(const Kernel& kernel, int32_t given = -1);
std::optional<Kernel> stored_count(const Kernel& kernel);
Kernel stored_mask(const Kernel& kernel, int32_t mask);
// What the score reads beside its operands.
std::vector<int> score_arguments(const Kernel& kernel);

// NAME_look leaves which chunks of the block have keys that are not hidden; NAME_ahead brings what a block reads first
// of keys and values nearer, whatever it is by then; NAME_parts and NAME_merge. Parameters: see where they are called.
std::string print_attention(const Kernel& kernel, const StreamAttention& attention, const Dialect& dialect,
                            const std::string& name);

}  // namespace npusim::cuda
