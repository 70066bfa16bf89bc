// How many threads a step may use, and whether they are worth it.
#include "backends/cpu/step.h"

#include <algorithm>

#include "kernel/facts/fourier.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"
#include "program/work.h"

namespace npusim::cpu {

int usable_threads(const Kernel& kernel, const Context& context) {
  return order_matters(kernel) ? 1 : std::max(1, context.threads);
}

// Arithmetic at some 50 GFLOP/s, bytes at 40 GB/s, elements of rows that are ordered at 5 ns, of those that are
// transformed at 1.
double step_ns(const Kernel& kernel) {
  constexpr double flops_per_ns = 50, bytes_per_ns = 40, order_ns = 5, fourier_ns = 1;
  const Work work = kernel_work(kernel);
  const auto points = static_cast<double>(element_count(kernel.space));
  const double flops = static_cast<double>(work.flops) + points * static_cast<double>(kernel.exprs.size());
  const double ns = flops / flops_per_ns + static_cast<double>(work.read_bytes + work.written_bytes) / bytes_per_ns;
  return ns + points * (has_order(kernel) ? order_ns : has_fourier(kernel) ? fourier_ns : 0);
}

}  // namespace npusim::cpu
