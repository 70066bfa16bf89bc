// What an implementation makes of a kernel: functions of CUDA C++, and how they are launched.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "print/print.h"

namespace npusim::cuda::codegen {

// What all architectures have that are compiled for.
struct Features {
  bool groups = false;  // products by warpgroups: sm_90a
};

struct Made {
  std::string symbol;
  std::string functions;  // without the helpers that they mention; the last one is the kernel's
  LaunchShape shape;
  int64_t shared_bytes = 0;        // of a block, beside what the text declares
  std::vector<std::string> traps;  // what its trap word says, from 1 on; none: it takes none
  std::vector<size_t> trap_steps;  // whose each of them is, of several steps; none: the first one's
  bool groups = false;             // uses what sm_90a alone has
  int pieces = 1;                  // blocks of a cluster
  std::string how;                 // the implementation, and why those before it declined
};

// Puts the kernel itself behind made.functions: what it is, its head for made.shape, and the body. `leads`: the next
// launch may begin while this one runs.
void add_kernel(Made& made, const Kernel& kernel, const std::string& body, bool leads);
}  // namespace npusim::cuda::codegen
