// Candidates of a stream: timing chooses one for a device, and the same bits come out of all.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "backends/cuda/codegen/stream/facts/product.h"

namespace npusim::cuda::codegen::stream {

struct StreamCandidate {
  // Requests for weights and keys, each of up to half a slot, that a block has in flight at once: more delay what
  // blocks exchange, less where they are apart. An H100 is fastest with three.
  int requests = 6;
  // Clocks before each at least since the one before it, for half a slot. The memory of an H200 gives a block that in
  // 630, that of an H100 in 920: a gap near that costs time.
  int gap = 500;
  // The same of as many pieces as the ring has, from the second one behind an attention's keys on: they are asked for
  // while blocks exchange queries and what attention finds, and are needed only behind that.
  int gap_behind_keys = 700;
  // Many words are read when all but one in so many blocks have published; 0: when all have.
  int late = 4;
  // A block's words are prefetched to L2 before it publishes them.
  bool prefetch = true;
  // Weights are the first that the cache gives up.
  bool once = true;
};
// The likeliest to be the fastest first.
std::span<const StreamCandidate> stream_candidates();
std::string to_string(const StreamCandidate& candidate);

}  // namespace npusim::cuda::codegen::stream
