// How long a kernel takes by the rates of a machine, and what it then waits for.
#pragma once
#include "kernel/kernel.h"
#include "program/program.h"
#include "program/target_config.h"

namespace npusim::plan {

// The longer of two times: that of the memory which the kernel must touch, and that of its products, which are of its
// first operand's dtype. Of keys whose number is known only when it runs, as if all were there (program/work.h).
Estimate estimate(const Kernel& kernel, const Machine& machine);

}  // namespace npusim::plan
