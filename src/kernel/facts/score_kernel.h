// The score of an attention as a kernel of its own, and back.
#pragma once
#include "kernel/kernel.h"

namespace npusim {

// The score of `outer`, which holds an attention, with the arguments that `outer` reads. It stores nothing.
Kernel score_kernel(const Kernel& outer);
// The kernel, of which nothing is stored but one expression, in an argument of one element behind the others.
Kernel storing(Kernel kernel, int32_t expr, DType dtype);
Kernel stored_score(const Kernel& outer);
// What a kernel with a matmul stores, as a score, and what its second store has, as the number of keys. The score's
// accesses name the kernel's arguments.
Score to_score(const Kernel& kernel);

}  // namespace npusim
