// How much one kernel may be: what asks of kernels takes time that grows with more than their length.
#pragma once
#include <string>

#include "kernel/kernel.h"

namespace npusim {

// Why the kernel is too much, "" if it is not: reductions and scans, which may each be a pass along the row; and the
// guards and index terms of all its loads. Files with such kernels are refused, and fusion does not make them.
std::string beyond_limits(const Kernel& kernel);

}  // namespace npusim
