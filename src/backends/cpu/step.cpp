// How many threads a step may use.
#include "backends/cpu/step.h"

#include <algorithm>

#include "kernel/facts/memory.h"

namespace npusim::cpu {

int usable_threads(const Kernel& kernel, const Context& context) {
  return order_matters(kernel) ? 1 : std::max(1, context.threads);
}

}  // namespace npusim::cpu
