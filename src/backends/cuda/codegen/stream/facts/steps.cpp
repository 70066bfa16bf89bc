// Products and what surrounds them, apart.
#include "backends/cuda/codegen/stream/facts/steps.h"

#include <algorithm>

#include "backends/cuda/codegen/stream/facts/product.h"
#include "backends/cuda/codegen/stream/facts/ring_keys.h"
#include "kernel/facts/epilogue_kernel.h"

namespace npusim::cuda::codegen::stream::facts {
namespace {

constexpr int64_t most_lines = 8192;  // that every block computes the rest of

// The product alone, of the kernel's two operands, as float32 values line by line.
Kernel bare_product(const Kernel& kernel, const StreamProduct& product) {
  Kernel k;
  k.name = kernel.name + "_product";
  k.space = kernel.space;
  Contraction c = *kernel.contraction;
  k.args = {kernel.args[static_cast<size_t>(c.a.arg)],
            kernel.args[static_cast<size_t>(c.b.arg)],
            {DType::f32, product.lines.size(), true, -1}};
  c.a.arg = 0, c.b.arg = 1;
  k.contraction = std::make_shared<const Contraction>(std::move(c));
  k.exprs = {{.op = ExprOp::contraction, .type = Scalar::f32}};
  Access to;
  to.arg = 2;
  to.strides = tile_strides(k.space.size(), product.rows, product.lines, product.lines.size());
  k.stores = {{.access = std::move(to), .expr = 0}};
  return k;
}

bool stores_outside(const WholeMethod& method, const GroupStep& step) {
  return std::any_of(step.kernel->stores.begin(), step.kernel->stores.end(), [&](const Store& store) {
    const int32_t value = step.values[static_cast<size_t>(store.access.arg)];
    return !store.access.terms.empty() && method.uses[static_cast<size_t>(value)] == ValueUse::outside;
  });
}

}  // namespace

StreamSteps stream_steps(const WholeMethod& given, const Features& device) {
  StreamSteps steps;
  steps.device = device;
  steps.method.uses = given.uses;
  const auto add = [&](GroupStep step, size_t origin, plan::Contracted contracted) {
    steps.method.steps.push_back(std::move(step));
    steps.origin.push_back(origin);
    steps.contracted.push_back(std::move(contracted));
  };
  for (size_t s = 0; s < given.steps.size(); ++s) {
    const GroupStep& step = given.steps[s];
    const Kernel& k = *step.kernel;
    plan::Contracted contracted = plan::contracted(k);
    std::string why;
    const auto product = stores_outside(given, step) ? find_stream_product(k, contracted, why) : std::nullopt;
    if (!product || product->rows.size() != 1 || product->lines.size() > most_lines) {
      add(step, s, std::move(contracted));
      continue;
    }
    const auto between = static_cast<int32_t>(steps.method.uses.size());
    steps.method.uses.push_back(ValueUse::inside);
    steps.made.push_back(std::make_shared<const Kernel>(bare_product(k, *product)));
    const auto value = [&](int arg) { return step.values[static_cast<size_t>(arg)]; };
    add({steps.made.back().get(), {value(k.contraction->a.arg), value(k.contraction->b.arg), between}}, s,
        plan::contracted(*steps.made.back()));
    EpilogueKernel rest =
        make_epilogue(k, tile_strides(k.space.size(), product->rows, product->lines, product->lines.size()));
    GroupStep after{nullptr, step.values};
    after.values.insert(after.values.begin() + rest.leaf, between);
    steps.made.push_back(std::make_shared<const Kernel>(std::move(rest.kernel)));
    after.kernel = steps.made.back().get();
    add(std::move(after), s, {});
  }
  find_ring_keys(steps);
  return steps;
}

}  // namespace npusim::cuda::codegen::stream::facts
