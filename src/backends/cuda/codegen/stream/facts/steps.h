// The steps of a method as a stream wants them.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/codegen/generated.h"
#include "backends/cuda/codegen/stream/facts/attention.h"
#include "codegen/target.h"

namespace npusim::cuda::codegen::stream::facts {

struct StreamSteps {
  WholeMethod method;
  Features device;
  std::vector<size_t> origin;                       // by step: that of the given method
  std::vector<plan::Contracted> contracted;         // by step
  std::vector<std::shared_ptr<const Kernel>> made;  // kernels that are none of the given method's
  std::map<size_t, RingKeys> ring;                  // attentions, by step, whose keys come through the ring
  std::optional<RingLayout> layout;                 // of all of them
};

// A product of one row that stores elsewhere than in a value of the method's own, as a row of a cache, becomes two
// steps: the product, and what is done with it, which every block can do for itself. Keys and values of attentions come
// through the ring where they can.
StreamSteps stream_steps(const WholeMethod& method, const Features& device);

}  // namespace npusim::cuda::codegen::stream::facts
