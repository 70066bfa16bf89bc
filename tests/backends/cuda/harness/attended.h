// Cases of attention.
#pragma once
#include "backends/cuda/codegen/attention/attention.h"
#include "backends/cuda/harness/check.h"

namespace npusim {

// What it is made from in one kernel; why it is not so made in `why`.
std::optional<plan::Attention> attention_of(const Kernel& kernel, std::string& why);
// In this shape of block.
Case shaped(std::string name, Kernel kernel, const cuda::codegen::attention::AttentionShape& shape);
// The attention that reads what the kernels before it find out, which the interpreter does here.
Case summarized(std::string name, Kernel kernel, const cuda::codegen::attention::AttentionShape& shape);
// As many keys as the first element of the mask says, which is of integers.
Kernel with_keys(Kernel kernel);

}  // namespace npusim
