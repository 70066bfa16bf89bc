// Counting of bytes and multiply-accumulates.
#include "program/work.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernel/facts/depend.h"
#include "kernel/facts/score_kernel.h"

namespace npusim {
namespace {

uint64_t product(const std::vector<int64_t>& extents) {
  uint64_t result = 1;
  for (int64_t n : extents)
    if (__builtin_mul_overflow(result, static_cast<uint64_t>(n), &result)) return UINT64_MAX;
  return result;
}

uint64_t limited_product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

// At most how many distinct elements an access over `dims` touches.
uint64_t distinct(const Access& a, const std::vector<int64_t>& dims, const Dependence& depends) {
  uint64_t count = 1;
  for (size_t d = 0; d < dims.size(); ++d)
    if (a.strides[d] != 0) count = limited_product(count, static_cast<uint64_t>(dims[d]));
  auto widen = [&](int64_t limit, const std::function<bool(size_t)>& used) {
    uint64_t values = 1;
    for (size_t d = 0; d < dims.size(); ++d)
      if (a.strides[d] == 0 && used(d)) values = limited_product(values, static_cast<uint64_t>(dims[d]));
    count = limited_product(count, std::min(values, static_cast<uint64_t>(std::max<int64_t>(limit, 0))));
  };
  for (const Guard& g : a.guards)
    if (g.stride != 0) widen(g.limit, [&](size_t d) { return g.coeffs[d] != 0; });
  for (const IndexTerm& t : a.terms)
    widen(t.extent, [&](size_t d) { return (depends.dims[static_cast<size_t>(t.expr)] & dim_bit(d)) != 0; });
  return count;
}

struct Counter {
  std::vector<uint64_t> touched;  // elements, by argument
  uint64_t flops = 0;

  void access(const Access& a, const std::vector<int64_t>& dims, const Dependence& depends) {
    uint64_t& sum = touched[static_cast<size_t>(a.arg)];
    if (__builtin_add_overflow(sum, distinct(a, dims, depends), &sum)) sum = UINT64_MAX;
  }

  void kernel(const Kernel& k) {
    const Dependence depends = dependence_of(k);
    std::vector<bool> counted(k.accesses.size());
    for (const Expr& e : k.exprs)
      if (e.op == ExprOp::load && !counted[static_cast<size_t>(e.integer)]) {
        counted[static_cast<size_t>(e.integer)] = true;
        access(k.accesses[static_cast<size_t>(e.integer)], k.space, depends);
      }
    for (const Store& s : k.stores) access(s.access, k.space, depends);
    if (!k.contraction) return;
    const Contraction& c = *k.contraction;
    std::vector<int64_t> dims = k.space;
    dims.insert(dims.end(), c.reduce.begin(), c.reduce.end());
    if (c.kind != ContractionKind::attention) access(c.a, dims, depends);
    access(c.b, dims, depends);
    flops += limited_product(2, product(dims));
    if (c.score) kernel(score_kernel(k));
  }
};

}  // namespace

Work kernel_work(const Kernel& kernel) {
  Counter counter{std::vector<uint64_t>(kernel.args.size())};
  counter.kernel(kernel);
  Work work;
  work.flops = counter.flops;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    if (kernel.call) counter.touched[i] = static_cast<uint64_t>(arg.elements);
    const uint64_t bytes = std::min(counter.touched[i], static_cast<uint64_t>(arg.elements)) * dtype_size(arg.dtype);
    (arg.written ? work.written_bytes : work.read_bytes) += bytes;
  }
  return work;
}

const Work& KernelWorks::of(const Step& step) {
  const auto [known, added] = known_.try_emplace(step.kernel);
  if (added) known->second = kernel_work(program_.kernels[static_cast<size_t>(step.kernel)]);
  return known->second;
}

Work method_work(KernelWorks& works, const Method& method) {
  Work total;
  for (const Step& step : method.steps) {
    if (step.is_transfer()) continue;
    const Work& work = works.of(step);
    total.read_bytes += work.read_bytes;
    total.written_bytes += work.written_bytes;
    total.flops += work.flops;
  }
  return total;
}

}  // namespace npusim
