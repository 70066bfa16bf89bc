// How many threads a step may use.
#include "backends/cpu/step.h"

#include <algorithm>

namespace npusim::cpu {

int usable_threads(const Kernel& kernel, const Context& context) {
  const bool adds =
      std::any_of(kernel.stores.begin(), kernel.stores.end(), [](const Store& s) { return s.accumulate; });
  return adds ? 1 : std::max(1, context.threads);
}

}  // namespace npusim::cpu
