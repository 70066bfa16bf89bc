// Attention of a few query rows: blocks share the keys, and what they find is merged.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plan/contracted.h"
#include "print/dialect.h"

namespace npusim::cuda::codegen::stream::facts {

inline constexpr int64_t quad_columns = 4;  // of a thread

// The row of keys, or of values, that this step writes among them: it stands in one of the attention's arguments, a row
// for each batch, and its position in another one. argument -1: no row is written.
struct StepRow {
  int argument = -1, position = -1;
  size_t step = 0;  // that makes it, and its argument of the position
  int step_position = -1;
};
struct RingKeys {
  StepRow key_row, value_row;
};
// In bytes: rows of keys and of values, and how far apart they are.
struct RingLayout {
  int64_t key_bytes = 0, key_apart = 0, value_bytes = 0, value_apart = 0;
  bool operator==(const RingLayout&) const = default;
};

inline constexpr int64_t ring_masks = 4;  // of a lane's scores of a chunk, at most

struct StreamAttention {
  AttentionAxes axes;
  bool multiplied = false;    // by tensor cores: queries of 16 bits like keys, and no row has keys of its own number
  bool by_warps = false;      // then each warp has keys of its own where a split has several chunks to read
  bool counted = false;       // the kernel says how many keys there are
  bool can_use_ring = false;  // keys and values lie so that they can come through the ring, in pieces of a chunk
  std::optional<RingKeys> ring = {};  // and do
  int64_t splits = 1;                 // of the keys of each batch, which take chunks round-robin
  int64_t inspected_chunks = 0;       // of a split, whose masks are inspected before the keys are read; 0: none is
  int32_t mask = -1;  // what is added to a score whatever the dot is, among the score's expressions; -1: nothing
  int64_t partial_bytes = 0;  // of all splits: sums of the columns, the largest score and the sum of weights

  static constexpr int64_t chunk = 32;          // keys that a block takes at once: a lane each
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
  int64_t found_warps() const { return own_warps() > 4 ? own_warps() / 2 : own_warps(); }  // that leave it at once
  int64_t own_pitch() const { return axes.columns.size() + 4; }  // floats of a row of what a warp found

  // Of a split, at most.
  int64_t chunks() const { return ((axes.keys.size() + chunk - 1) / chunk + splits - 1) / splits; }
  // Of a piece: keys as they lie, values with a pad behind each.
  int64_t ring_values() const { return chunk * axes.depth.size() * 2; }
  int64_t ring_pitch() const { return axes.columns.size() * 2 + row_pad; }
  // Where they do, each warp has keys of its own if a split has several chunks at all, and an inspection signals the
  // producer which chunks there are.
  void use_ring(const RingKeys& keys) {
    ring = keys;
    by_warps = chunks() > 1;
    if (counted) inspected_chunks = chunks();
  }
  // A byte for each chunk, for one block that had all splits.
  int64_t seen_bytes() const { return axes.batch.size() * splits * inspected_chunks; }
  // Of a chunk's values, scores, and what each row is at, in whole words.
  int64_t common_bytes() const {
    return (chunk * axes.columns.size() * 2 + axes.rows.size() * (scores + 4) * 4 + 15) / 16 * 16;
  }
  int64_t shared_bytes() const;  // of a block
};
// `blocks`: that share the keys where there are as many.
std::optional<StreamAttention> find_stream_attention(const Kernel& kernel, const plan::Contracted& contracted,
                                                     int64_t blocks, std::string& why);

RingLayout ring_layout(const Kernel& kernel, const StreamAttention& attention);
// Halves of chunks that a piece has where a block has several chunks: of each a warp takes its keys and values.
int64_t piece_halves(const RingLayout& layout);
// Pieces that begin in a round of chunks, in which each warp has a half: there must be a slot for each.
int64_t round_pieces(const RingLayout& layout);
// Elements from a batch to the next one; nullopt: they are not evenly apart.
std::optional<int64_t> batch_stride(const Access& access, const Axis& batch);

// The score with an expression that is given behind the dot, and that expression alone, stored in an argument of one
// element.
Kernel masked_by(const Kernel& kernel, int32_t mask);
Kernel stored_mask(const Kernel& kernel, int32_t mask);
// What the score reads besides its operands.
std::vector<int> score_arguments(const Kernel& kernel);

}  // namespace npusim::cuda::codegen::stream::facts
