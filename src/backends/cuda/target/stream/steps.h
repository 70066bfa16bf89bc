// The steps of a method as a stream wants them.
#pragma once
#include <memory>
#include <vector>

#include "codegen/target.h"

namespace npusim::cuda {

struct StreamSteps {
  WholeMethod method;
  std::vector<size_t> origin;                       // by step: that of the given method
  std::vector<std::shared_ptr<const Kernel>> made;  // kernels that are none of the given method's
};

// A product of one row that stores elsewhere than in a value of the method's own, as a row of a cache, becomes two
// steps: the product, and what is done with it, which every block can do for itself.
StreamSteps stream_steps(const WholeMethod& method);

}  // namespace npusim::cuda
