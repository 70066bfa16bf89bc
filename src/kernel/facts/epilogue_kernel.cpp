// The contraction's leaf replaced by a load.
#include "kernel/facts/epilogue_kernel.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "kernel/facts/attention_axes.h"

namespace npusim {

std::vector<int64_t> tile_strides(size_t rank, const Axis& rows, const Axis& columns, int64_t ld) {
  std::vector<int64_t> strides(rank, 0);
  auto fill = [&](const Axis& axis, int64_t stride) {
    for (size_t d = axis.dims.size(); d-- > 0; stride *= axis.extents[d])
      strides[static_cast<size_t>(axis.dims[d])] = stride;
  };
  fill(rows, ld);
  fill(columns, 1);
  return strides;
}

EpilogueKernel make_epilogue(const Kernel& kernel, const std::vector<int64_t>& strides, const Access& log) {
  EpilogueKernel result{kernel, -1};
  Kernel& k = result.kernel;
  k.name += "_epilogue";
  k.contraction = nullptr;
  const auto reads = std::find_if(k.args.begin(), k.args.end(), [](const KernelArg& arg) { return arg.written; });
  result.leaf = static_cast<int>(reads - k.args.begin());
  const auto load = [&](Access access) {
    access.arg = result.leaf;
    Expr value{.op = ExprOp::load, .type = Scalar::f32};
    value.integer = static_cast<int64_t>(k.accesses.size());
    k.accesses.push_back(std::move(access));
    return value;
  };
  const auto elements_of = [&](const Access& access) {
    int64_t elements = access.offset + 1;
    for (size_t d = 0; d < access.strides.size(); ++d) elements += access.strides[d] * (k.space[d] - 1);
    return elements;
  };
  const Access leaf{result.leaf, 0, strides, {}, {}};
  k.args.insert(reads, {DType::f32, std::max(elements_of(leaf), elements_of(log)), false, -1});
  for (Store& store : k.stores) ++store.access.arg;
  const Expr value = load(leaf);
  const std::optional<Expr> sum = log.strides.empty() ? std::nullopt : std::optional(load(log));
  for (Expr& e : k.exprs) {
    if (e.op != ExprOp::contraction) continue;
    if (is_log_of_sum(e) && !sum) fail(ErrorKind::internal, "{}: nothing holds the log of its sums", k.name);
    e = is_log_of_sum(e) ? *sum : value;
  }
  return result;
}

}  // namespace npusim
