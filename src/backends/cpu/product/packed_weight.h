// Weights packed once, shared by all steps that read them.
#pragma once
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cpu/product/operand.h"
#include "backends/cpu/step.h"

namespace npusim::cpu::product {

// A weight in panels, in its own dtype (f32, f16 or bf16): [batch][panel][k][columns of a tile], 0 past the last
// column.
struct PackedWeight {
  DType dtype = DType::f32;
  std::shared_ptr<std::byte> data;
};

// Packed weights by address, dtype and layout. Threads may pack at the same time.
struct WeightCache {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const PackedWeight>> weights;
};

// Columns that are no constant, but that several steps of a segment read and none writes: the first of them packs them
// in each run, for all.
struct SharedInput {
  int steps = 0;
  std::shared_ptr<const PackedWeight> packed;  // where there are two steps or more
  std::shared_ptr<const uint64_t> run;         // in which the segment is
  uint64_t packed_in = 0;                      // 0: none
};
struct SharedInputs {
  using Range = std::pair<const std::byte*, const std::byte*>;  // of memory
  std::vector<Range> written;                                   // by the segment's steps, in order and apart
  std::shared_ptr<uint64_t> run = std::make_shared<uint64_t>(1);
  std::map<std::string, std::shared_ptr<SharedInput>> inputs;  // by address, dtype and layout
};
void note_written(SharedInputs& shared, std::vector<SharedInputs::Range> ranges);
// Of a second step on that has these columns; nullptr of others.
std::shared_ptr<SharedInput> shared_input(const Operand& b, int64_t width, const Context& context);
// Packs them unless this run has. By a step that runs.
void renew(SharedInput& input, const Operand& b, int64_t width, int threads);

// The columns of all batches in panels of `width`, from the context's cache when it has one. Axes: batch, columns,
// depth.
std::shared_ptr<const PackedWeight> packed_weight(const Operand& b, int64_t width, const Context& context);

// One panel, columns [j0, j0 + width) of depths [k0, k1), as f32.
void pack_panel(const Operand& b, int64_t width, int64_t batch, int64_t j0, int64_t k0, int64_t k1, float* dst);

}  // namespace npusim::cpu::product
