// Bytes and FLOP by the machine's rates.
#include "plan/estimate.h"

#include "program/work.h"

namespace npusim::plan {

Estimate estimate(const Kernel& kernel, const Machine& machine) {
  const Work work = kernel_work(kernel);
  bool narrow = false;  // operands of 16 bits
  if (kernel.contraction) {
    const Contraction& c = *kernel.contraction;
    const Access& a = c.score ? c.score->a : c.a;
    narrow = dtype_size(kernel.args[static_cast<size_t>(a.arg)].dtype) == 2;
  }
  const double bytes = static_cast<double>(work.read_bytes) + static_cast<double>(work.written_bytes);
  const double memory = 1e-9 * bytes / static_cast<double>(machine.memory_gb_s);
  const double products =
      1e-9 * static_cast<double>(work.flops) / static_cast<double>(narrow ? machine.gflop_s_16_bit : machine.gflop_s);
  return products > memory ? Estimate{products, Resource::products} : Estimate{memory, Resource::memory};
}

}  // namespace npusim::plan
