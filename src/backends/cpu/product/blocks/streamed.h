// Products that keep nothing: the slow implementation behind a library's fast one.
#pragma once
#include <memory>

#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::blocks {

// The same kernel through no library, with nothing packed or kept in caches: slow, and right for every value.
std::unique_ptr<BoundStep> make_streamed_step(const Problem& problem);

}  // namespace npusim::cpu::product::blocks
