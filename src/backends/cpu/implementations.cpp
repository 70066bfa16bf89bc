// The choice of an implementation for a kernel with a contraction.
#include "backends/cpu/implementations.h"

#include <algorithm>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/product/matmul.h"
#include "backends/cpu/product/nan_guard.h"
#include "backends/cpu/product/onednn.h"
#include "backends/cpu/product/onednn_conv.h"
#include "backends/cpu/product/packed_weight.h"
#include "base/error.h"

namespace npusim::cpu {

Context make_context(int threads) {
  threads = std::max(1, threads);
  auto primitives = make_primitive_cache();
  const bool sees_nan = sees_lost_nan(*primitives, threads);
  return {threads, std::make_shared<WeightCache>(), std::move(primitives), multiplies_bf16(), sees_nan};
}

std::unique_ptr<BoundStep> make_contraction_step(const Kernel& kernel, std::span<const Binding> args,
                                                 const Context& context) {
  if (!kernel.contraction) fail(ErrorKind::internal, "kernel {} has no contraction", kernel.name);
  if (args.size() != kernel.args.size())
    fail(ErrorKind::internal, "kernel {}: {} bindings for {} arguments", kernel.name, args.size(), kernel.args.size());
  if (kernel.contraction->kind == ContractionKind::attention) return make_attention_step(kernel, args, context);
  if (kernel.contraction->kind == ContractionKind::conv)
    if (auto step = make_conv_step(kernel, args, context)) return step;
  return make_matmul_step(kernel, args, context);
}

}  // namespace npusim::cpu
