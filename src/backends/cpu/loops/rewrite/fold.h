// Rebuilds a kernel over a box of its space: constants and conditions that are the same everywhere are folded.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/facts/affine.h"
#include "kernel/kernel.h"

namespace npusim::cpu::loops::rewrite {

// The kernel over [begin, begin + extents). `conditions` receives the forms whose "f >= 0" could not be decided.
Kernel fold_kernel(const Kernel& from, const std::vector<int64_t>& begin, const std::vector<int64_t>& extents,
                   std::vector<IndexForm>* conditions);

}  // namespace npusim::cpu::loops::rewrite
