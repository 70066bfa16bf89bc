// A pointwise consumer written behind its producer, as an epilogue.
#include <algorithm>

#include "kernel/fuse/fuse.h"
#include "kernel/fuse/simplify.h"
#include "kernel/fuse/substitute.h"
#include "kernel/limits.h"

namespace npusim {
namespace {

// How the consumer reads the value, if all its accesses read it alike.
std::optional<std::vector<MappedIndex>> only_map(const Kernel& tail, int arg, const StoredDims& stored) {
  std::optional<std::vector<MappedIndex>> map;
  for (const Access& a : tail.accesses) {
    if (a.arg != arg) continue;
    std::optional<SplitRequest> split;
    auto found = map_access(a, tail.space, stored, split);
    if (!found || (map && !same_map(*map, *found))) return std::nullopt;
    map = std::move(found);
  }
  return map;
}

// The consumer's indices as functions of the producer's, or the split of the producer that this needs first.
struct Inverse {
  std::vector<MappedIndex> map;  // by dimension of the consumer
  std::optional<SplitRequest> split;
};

// Every stored dimension must be exactly one index of the consumer; where it is several, it is split first.
std::optional<Inverse> invert(const std::vector<MappedIndex>& map, const StoredDims& stored, const Kernel& producer,
                              const Kernel& tail, bool splittable) {
  Inverse inverse;
  inverse.map.assign(tail.space.size(), {});
  for (MappedIndex& m : inverse.map) m.coeffs.assign(producer.space.size(), 0);
  std::vector<bool> reached(tail.space.size(), false);
  for (size_t i = 0; i < map.size(); ++i) {
    const MappedIndex& m = map[i];
    if (m.guarded || m.term >= 0 || m.offset != 0) return std::nullopt;
    int64_t smallest = 0;
    size_t at = 0, count = 0;
    for (size_t d = 0; d < m.coeffs.size(); ++d) {
      if (m.coeffs[d] == 0) continue;
      if (m.coeffs[d] < 0 || reached[d]) return std::nullopt;
      ++count;
      if (smallest == 0 || m.coeffs[d] < smallest) {
        smallest = m.coeffs[d];
        at = d;
      }
    }
    if (count == 0 || smallest != 1) return std::nullopt;
    const int64_t extent = tail.space[at];
    if (extent != stored.extents[i]) {
      if (count < 2 || stored.extents[i] % extent != 0 || !splittable) return std::nullopt;
      inverse.split = SplitRequest{stored.dims[i], extent};
      return inverse;
    }
    if (count != 1) return std::nullopt;
    reached[at] = true;
    inverse.map[at].coeffs[stored.dims[i]] = 1;
  }
  for (size_t d = 0; d < reached.size(); ++d)
    if (!reached[d] && tail.space[d] != 1) return std::nullopt;
  return inverse;
}

// Splits both kernels until each index of the consumer is one of the producer; gives them.
std::optional<std::vector<MappedIndex>> align(Kernel& p, int out_arg, Kernel& tail, int arg) {
  const bool splittable = !p.contraction || p.contraction->kind == ContractionKind::matmul;
  for (int rounds = 0; rounds <= 64; ++rounds) {
    const Store* store = store_of(p, out_arg);
    if (!store) return std::nullopt;
    const auto stored = stored_dims(p, store->access, p.args[static_cast<size_t>(out_arg)].elements);
    if (!stored || !split_until_mapped(tail, arg, *stored)) return std::nullopt;
    if (points(tail.space) != points(p.space)) return std::nullopt;
    const auto map = only_map(tail, arg, *stored);
    if (!map) return std::nullopt;
    auto inverse = invert(*map, *stored, p, tail, splittable);
    if (!inverse) return std::nullopt;
    if (!inverse->split) return std::move(inverse->map);
    split_dim(p, inverse->split->dim, inverse->split->inner);
  }
  return std::nullopt;
}

}  // namespace

std::optional<BoundKernel> append_consumer(const BoundKernel& producer, const BoundKernel& consumer, int value,
                                           bool keep, const FuseOptions& options) {
  const int arg = find_arg(consumer, value, false);
  const int out_arg = find_arg(producer, value, true);
  if (arg < 0 || out_arg < 0 || consumer.kernel.contraction || consumer.kernel.row_dims || producer.kernel.row_dims ||
      consumer.kernel.call || producer.kernel.call)
    return std::nullopt;
  for (size_t i = 0; i < consumer.values.size(); ++i) {
    const KernelArg& a = consumer.kernel.args[i];
    if (a.updates == arg) return std::nullopt;
    // Another of the producer's results would be read by the kernel that writes it.
    if (!a.written && static_cast<int>(i) != arg && find_arg(producer, consumer.values[i], true) >= 0)
      return std::nullopt;
  }
  BoundKernel out = producer;
  BoundKernel tail = consumer;
  Kernel& p = out.kernel;
  auto inverse = align(p, out_arg, tail.kernel, arg);
  if (!inverse) return std::nullopt;

  const Store store = *store_of(p, out_arg);
  std::vector<int> args(tail.kernel.args.size(), -1);
  for (size_t i = 0; i < args.size(); ++i) {
    if (static_cast<int>(i) == arg) continue;
    KernelArg copy = tail.kernel.args[i];
    if (copy.updates >= 0) copy.updates = args[static_cast<size_t>(copy.updates)];
    args[i] = add_arg(out, copy, tail.values[i]);
  }
  Substitution s(tail.kernel, p, std::move(*inverse), args);
  const int32_t x = through_dtype(p, store.expr, p.args[static_cast<size_t>(out_arg)].dtype, options.strict);
  for (size_t i = 0; i < tail.kernel.exprs.size(); ++i) {
    const Expr& e = tail.kernel.exprs[i];
    if (e.op == ExprOp::load && tail.kernel.accesses[static_cast<size_t>(e.integer)].arg == arg)
      s.replace(static_cast<int32_t>(i), cast_to(p, x, e.type));
  }
  if (!keep) std::erase_if(p.stores, [&](const Store& st) { return st.access.arg == out_arg; });
  for (const Store& st : tail.kernel.stores) {
    const int32_t expr = s.expression(st.expr);
    p.stores.push_back({s.access(st.access), expr, st.accumulate, st.reduction});
  }
  if (!s.ok()) return std::nullopt;
  order_args(out);
  simplify(out);
  if (!beyond_limits(out.kernel).empty()) return std::nullopt;
  return out;
}

}  // namespace npusim
