// What an implementation makes of a kernel: functions of CUDA C++, and how they are launched.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "plan/launches.h"
#include "plan/product.h"

namespace npusim::cuda::codegen {

using plan::Bound;
using plan::Operand;
using plan::Product;
using plan::word;

// What all architectures have that are compiled for.
struct Features {
  bool groups = false;  // products by warpgroups: sm_90a
};

struct Made : plan::Made {
  bool groups = false;  // uses what sm_90a alone has
  int pieces = 1;       // blocks of a cluster
};

// Puts the kernel itself behind made.functions: what it is, its head for made.shape, and the body. `leads`: the next
// launch may begin while this one runs.
void add_kernel(Made& made, const Kernel& kernel, const std::string& body, bool leads);
}  // namespace npusim::cuda::codegen
