// The memory of a block besides the ring: values that live there at the same time do not overlap.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace npusim::cuda::codegen::stream {

class BlockMemory {
 public:
  using Offsets = std::map<int32_t, int64_t>;  // in bytes

  // What `where` says by that name is there at this time, or still. Its bytes are those of the first time.
  void keep(Offsets& where, int32_t name, int64_t bytes, int64_t now);
  // From one time to another, both included.
  using Span = std::pair<int64_t, int64_t>;

  // Assigns all offsets. How many bytes there are. What is there at one of the times of a span is there at all of them,
  // unless that takes more bytes than needed and than `cheap`. Spans are in order, none touches another.
  int64_t assign(const std::vector<Span>& spans, int64_t cheap);

 private:
  struct Life {
    int64_t bytes = 0, begin = 0, end = 0;
  };
  std::map<std::pair<Offsets*, int32_t>, Life> lives_;
};

}  // namespace npusim::cuda::codegen::stream
