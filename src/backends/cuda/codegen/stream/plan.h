// A method as one persistent launch: its stages, which of them wait for all blocks, and what a block keeps in its own
// memory.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/facts/attention.h"
#include "backends/cuda/codegen/stream/facts/product.h"
#include "backends/cuda/codegen/stream/facts/steps.h"
#include "print/schedule.h"

namespace npusim::cuda::codegen::stream {

struct StreamStage {
  enum class Kind : uint8_t {
    gather,      // a value into the memory of every block
    exchange,    // what blocks made and published, likewise: each word as soon as it is there
    product,     // each block some lines of the matrix
    ahead,       // what attention will read is prefetched
    inspect,     // each block: which of its keys a mask does not hide
    attention,   // each block some keys
    merge,       // of what attention found: each block some columns
    everywhere,  // every block all of it
    spread,      // each block some blocks of the kernel's
  };
  Kind kind = Kind::spread;
  size_t step = 0;
  bool after_all = false;            // every block has come so far
  std::vector<int32_t> values = {};  // gather: one; exchange
  bool inspected = false;            // ahead: what the mask hides is known by then
};

// A value of which each block makes some elements, in their order, and publishes them: it lives in the memory of each
// block, where the others' elements come when they are gathered.
struct StreamExchange {
  int64_t units = 0, width = 1;  // a block's share is of whole units of so many elements
  DType dtype = DType::f32;
};
// As it travels: in parts of 4 bytes where units are made of them, else of 2.
inline int64_t unit_bytes(const StreamExchange& e) { return e.width * static_cast<int64_t>(dtype_size(e.dtype)); }
inline int64_t part_bytes(const StreamExchange& e) { return unit_bytes(e) % 4 == 0 ? 4 : 2; }

// Where there are blocks for all splits of an attention: of its batches a block needs the part of its own. Of what rows
// are made of that a step writes into keys or values, at a position that is an argument, only the block that has that
// key.
struct StreamSlice {
  size_t attention = 0;             // step
  std::optional<size_t> rows = {};  // step
  int position = -1;                // argument of that
};

struct StreamPlan {
  Features device;
  std::vector<StreamStage> stages;
  std::vector<Kernel> kernels;  // by step, without a contraction where it is no product and no attention
  std::vector<std::optional<facts::StreamProduct>> products;      // by step
  std::vector<std::optional<facts::StreamAttention>> attentions;  // by step
  std::vector<Schedule> schedules;                                // by step
  std::vector<int64_t> bytes;                                     // by value
  std::map<int32_t, StreamExchange> exchanges;                    // by value
  std::map<int32_t, int64_t> homes;          // values that live in the memory of each block, and where there, in bytes
  std::map<int32_t, int64_t> copies;         // values that are gathered there
  std::map<int32_t, StreamSlice> slices;     // of what is exchanged, by value
  std::map<size_t, StreamSlice> row_slices;  // of rows that every block computes for itself, by step
  int64_t kept_bytes = 0;                    // of both
  std::map<size_t, int64_t> scratch;         // of an attention, by step: what it needs of that memory while it runs
  std::map<size_t, int64_t> seen;        // likewise: where it is kept which of its chunks have keys that are not hidden
  std::set<size_t> awaited_inspections;  // by step, before keys are requested
  std::optional<facts::RingLayout> ring;  // of keys and values that come through the ring
  int64_t partial_bytes = 0;              // of attention
};

// Without the tables and the ring, for which the rest of a block's memory is left. Why not in `why`.
std::optional<StreamPlan> plan_stream(const facts::StreamSteps& steps, std::string& why);

// The dialect of stages: a block has more threads than those that compute.
const Dialect& stream_dialect();

}  // namespace npusim::cuda::codegen::stream
