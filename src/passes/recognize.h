// Names what a kernel computes ("rms_norm", "rope", …), for reports and for switching fusions off one by one.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

std::vector<std::string> recognize(const Kernel& kernel);

// x of a row softmax: the stored expression is exp(x − max x) / Σ exp(x − max x), maybe cast. -1 if it is not one.
// `safe`: rows whose maximum is −inf give 0.
int32_t softmax_argument(const Kernel& kernel, int32_t stored, bool& safe);

// A pointwise kernel that moves or converts elements and does nothing else.
bool is_copy_or_cast(const Kernel& kernel);

}  // namespace npusim
