// A score with the arguments of the kernel around it.
#include "backends/cpu/attention/score.h"

namespace npusim::cpu {

Kernel score_kernel(const Kernel& outer, const std::vector<int64_t>& strides) {
  Kernel k = *outer.contraction->score;
  for (const KernelArg& arg : outer.args)
    if (!arg.written) k.args.push_back(arg);
  int64_t elements = 1;
  for (size_t d = 0; d < strides.size(); ++d) elements += strides[d] * (k.space[d] - 1);
  k.stores[0].access = {static_cast<int>(k.args.size()), 0, strides, {}, {}};
  k.stores[0].accumulate = false;
  k.args.push_back({DType::f32, elements, true, -1});
  return k;
}

}  // namespace npusim::cpu
