// A score with the arguments of the kernel around it.
#include "backends/cpu/attention/score.h"

#include "kernel/facts/score_kernel.h"

namespace npusim::cpu::attention {

Kernel score_on_tile(const Kernel& outer, const std::vector<int64_t>& strides) {
  Kernel k = score_kernel(outer);
  int64_t elements = 1;
  for (size_t d = 0; d < strides.size(); ++d) elements += strides[d] * (k.space[d] - 1);
  k.stores = {{{static_cast<int>(k.args.size()), 0, strides, {}, {}}, outer.contraction->score->result, false}};
  k.args.push_back({DType::f32, elements, true, -1});
  return k;
}

}  // namespace npusim::cpu::attention
