// The kernels of the zoo's models, contractions spelled out as rows: what the printer meets.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// Of every model in examples/zoo, compiled at its own dtype and in float32; those of equal text once.
const std::vector<Kernel>& zoo_kernels();

// The kernel over a corner of its space of at most `points` points, with rows as they are where these alone are not
// more, and with no more memory than that takes.
Kernel clipped(Kernel kernel, int64_t points);

}  // namespace npusim
