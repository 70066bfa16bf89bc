// The choice of an implementation for a kernel with a contraction (matmul, convolution, attention).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/step.h"
#include "runtime/backend.h"

namespace npusim::cpu {

Context make_context(int threads);

struct Choice {
  std::unique_ptr<BoundStep> step;
  std::vector<Declined> declined;
  // What the step may leave as it was, of results that need not keep what is there: zero before it.
  std::vector<std::span<std::byte>> cleared = {};
};
// One binding per kernel argument, those written included. The kernel must satisfy check_kernel().
Choice choose_implementation(const Kernel& kernel, std::span<const Binding> args, const Context& context);

}  // namespace npusim::cpu
