// Kernels that order rows, on the host.
#pragma once
#include <memory>
#include <vector>

#include "backends/cpu/step.h"

namespace npusim::cpu::order {

// All of a row by its keys' digits, its first few by a scan, or one of them by a search; rows side by side on all
// threads, or one long row.
std::unique_ptr<BoundStep> make_order_step(const Kernel& kernel, std::vector<void*> args, int threads);

}  // namespace npusim::cpu::order
