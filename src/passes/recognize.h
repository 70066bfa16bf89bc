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

// x of the log of a row's sum of exponentials: the stored expression is top + log Σ exp(x − top), or top where it is
// −∞, with top = max x. -1 if it is not one.
int32_t log_sum_exp_argument(const Kernel& kernel, int32_t stored);

// A pointwise kernel that moves or converts elements and does nothing else.
bool is_copy_or_cast(const Kernel& kernel);

}  // namespace npusim
