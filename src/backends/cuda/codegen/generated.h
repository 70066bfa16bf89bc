// What an implementation makes of a kernel: functions of CUDA C++, and how they are launched.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "plan/launches.h"
#include "plan/product.h"
#include "program/target_config.h"

namespace npusim::cuda::codegen {

using plan::Bound;
using plan::Operand;
using plan::Product;
using plan::word;

// What all architectures have that are compiled for, and the device that texts are chosen for (TargetConfig).
struct Features {
  bool groups = false;  // products by warpgroups: sm_90a
  int units = 1;        // multiprocessors
  int64_t unit_bytes = 0, block_bytes = 0;
  int64_t cache_bytes = 0;         // that all of them share
  int64_t cluster_blocks[4] = {};  // that run at once in clusters of 3, 4, 6, and 8 or more
};
Features features_of(bool groups, const TargetConfig& config);

struct GeneratedKernel : plan::GeneratedKernel {
  bool groups = false;  // uses what sm_90a alone has
  int pieces = 1;       // blocks of a cluster
};

// What a block has on every device from sm_80 on.
inline constexpr int64_t least_block_bytes = 99 << 10;

// Puts the kernel itself behind made.functions: what it is, its head for made.shape, and the body. `leads`: the next
// launch may begin while this one runs.
void add_kernel(GeneratedKernel& made, const Kernel& kernel, const std::string& body, bool leads);
}  // namespace npusim::cuda::codegen
