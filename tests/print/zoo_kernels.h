// The kernels that programs of the zoo's models have beside contractions: what the printer meets.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// Of every model in examples/zoo, compiled at its own dtype and in float32; those of equal text once.
const std::vector<Kernel>& zoo_kernels();

}  // namespace npusim
