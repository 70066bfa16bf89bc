// The own products of a kernel without constants.
#include "backends/cpu/product/blocks/streamed.h"

#include "backends/cpu/product/blocks/matmul.h"
#include "backends/cpu/product/gemv/gemv.h"

namespace npusim::cpu::product::blocks {

std::unique_ptr<BoundStep> make_streamed_step(const Problem& problem) {
  std::vector<Binding> changing(problem.args.begin(), problem.args.end());
  for (Binding& binding : changing) binding.constant = false;
  Problem streamed{problem.kernel, changing, problem.context, problem.chain, {}, {}};
  if (Answer few = gemv::make_gemv_step(streamed); few.step) return std::move(few.step);
  return make_matmul_step(streamed).step;
}

}  // namespace npusim::cpu::product::blocks
