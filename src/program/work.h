// How much a method does, counted from its kernels: memory it must touch and arithmetic of its contractions. Of keys
// whose number is known only when it runs, as if all were there.
#pragma once
#include <cstdint>

#include "program/program.h"

namespace npusim {

struct Work {
  uint64_t read_bytes = 0;     // distinct bytes each argument is read at, summed over the steps
  uint64_t written_bytes = 0;  // likewise
  uint64_t flops = 0;          // two per multiply-accumulate of matmuls, convolutions and attentions
};

Work kernel_work(const Kernel& kernel);
Work method_work(const Program& program, const Method& method);

}  // namespace npusim
