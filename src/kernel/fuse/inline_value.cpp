// A consumer's loads replaced by the producer's expression.
#include <algorithm>

#include "kernel/facts/fourier.h"
#include "kernel/facts/memory.h"
#include "kernel/facts/order.h"
#include "kernel/facts/rename.h"
#include "kernel/fuse/fuse.h"
#include "kernel/fuse/match_row.h"
#include "kernel/fuse/simplify.h"
#include "kernel/fuse/substitute.h"
#include "kernel/limits.h"

namespace npusim {
namespace {

// A copy's stored dimensions split where guarded coordinates of `arg` run within one: [hw] becomes [h, w] for a window.
void split_at_guards(BoundKernel& producer, int out_arg, const Kernel& consumer, int arg) {
  auto visit = [&](const Access& a) {
    if (a.arg != arg) return;
    for (const Guard& g : a.guards) {
      const Store* store = store_of(producer.kernel, out_arg);
      const auto stored =
          stored_dims(producer.kernel, store->access, producer.kernel.args[static_cast<size_t>(out_arg)].elements);
      if (!stored) return;
      for (size_t i = 0; i < stored->dims.size(); ++i) {
        if (stored->strides[i] >= g.stride) continue;
        const int64_t q = g.stride / stored->strides[i];
        if (g.stride % stored->strides[i] == 0 && q < stored->extents[i] && stored->extents[i] % q == 0)
          split_dim(producer.kernel, stored->dims[i], q);
        break;
      }
    }
  };
  for (const Access& a : consumer.accesses) visit(a);
  if (!consumer.contraction || consumer.contraction->kind == ContractionKind::attention) return;
  visit(consumer.contraction->a);
  visit(consumer.contraction->b);
}

// Whether every guard of an operand is a stored dimension of its own: outside it the operand is 0, which a guard on
// several dimensions at once could not say.
bool guards_are_exact(const Access& access, const StoredDims& stored, const std::vector<MappedIndex>& map) {
  for (const Guard& g : access.guards) {
    bool exact = false;
    for (size_t i = 0; i < map.size(); ++i)
      exact = exact || (map[i].guarded && g.stride == stored.strides[i] && g.limit == stored.extents[i] &&
                        map[i].offset == g.offset && map[i].coeffs == g.coeffs);
    if (!exact) return false;
  }
  return true;
}

// Into a contraction's operands go only copies: their addresses compose.
bool compose_operands(BoundKernel& out, const BoundKernel& producer, int arg, const StoredDims& stored) {
  Kernel& k = out.kernel;
  auto c = std::make_shared<Contraction>(*k.contraction);
  std::vector<int64_t> extents = k.space;
  extents.insert(extents.end(), c->reduce.begin(), c->reduce.end());
  bool touched = false;
  for (Access* operand : {&c->a, &c->b}) {
    if (operand->arg != arg) continue;
    if (!is_copy(producer.kernel)) return false;
    std::optional<SplitRequest> split;
    auto map = map_access(*operand, extents, stored, split);
    if (!map || !guards_are_exact(*operand, stored, *map)) return false;
    std::vector<MappedIndex> full(producer.kernel.space.size());
    for (MappedIndex& m : full) m.coeffs.assign(extents.size(), 0);
    for (size_t i = 0; i < stored.dims.size(); ++i) full[stored.dims[i]] = (*map)[i];
    const Access& source = producer.kernel.accesses[0];
    Kernel wide;  // carries the rank space ++ reduce for the composition
    wide.space = extents;
    const int renamed = add_arg(out, producer.kernel.args[static_cast<size_t>(source.arg)],
                                producer.values[static_cast<size_t>(source.arg)]);
    std::vector<int> args(producer.kernel.args.size(), -1);
    args[static_cast<size_t>(source.arg)] = renamed;
    Substitution s(producer.kernel, wide, std::move(full), args);
    const size_t guards = operand->guards.size();
    *operand = s.access(source);
    if (!s.ok() || operand->guards.size() != guards) return false;
    touched = true;
  }
  if (touched) k.contraction = c;
  return true;
}

// One producer that is inlined into one consumer.
struct Inlining {
  BoundKernel& out;  // the consumer
  const BoundKernel& producer;
  const Store& store;  // of the value
  const StoredDims& stored;
  int arg;                // of the value in the consumer
  std::vector<int> args;  // the producer's arguments in the consumer
  const FuseOptions& options;
  std::optional<std::vector<MappedIndex>> row_map;  // of the accesses so far, for a producer with a row
};

// The producer's indices where an access of the value reads it.
std::optional<std::vector<MappedIndex>> indices_at(Inlining& in, const Access& access) {
  const Kernel &k = in.out.kernel, &p = in.producer.kernel;
  std::optional<SplitRequest> split;
  const auto map = map_access(access, k.space, in.stored, split);
  if (!map) return std::nullopt;
  std::vector<MappedIndex> full(p.space.size());
  for (MappedIndex& m : full) m.coeffs.assign(k.space.size(), 0);
  for (size_t i = 0; i < in.stored.dims.size(); ++i) full[in.stored.dims[i]] = (*map)[i];
  const auto row = static_cast<size_t>(p.row_dims);
  // Rows run side by side. One element of the row, x[0] where the row of x is summed too, is none of its points.
  for (size_t j = 0; j < row; ++j) {
    const size_t d = p.space.size() - row + j, own_dim = k.space.size() - row + j;
    MappedIndex& m = full[d];
    const bool stored = std::find(in.stored.dims.begin(), in.stored.dims.end(), d) != in.stored.dims.end();
    if (stored && std::all_of(m.coeffs.begin(), m.coeffs.end(), [](int64_t c) { return c == 0; })) return std::nullopt;
    if (!stored) m.coeffs[own_dim] = 1;
  }
  if (row == 0) return full;
  // Every access must see the same row and outer point.
  if (std::any_of(full.begin(), full.end(), [](const MappedIndex& m) { return m.guarded || m.term >= 0; }))
    return std::nullopt;
  if (in.row_map && !same_map(full, *in.row_map)) return std::nullopt;
  in.row_map = full;
  return full;
}

// The expression that stands for an access of the value; -1 if there can be none.
int32_t value_at(Inlining& in, const Access& access) {
  auto map = indices_at(in, access);
  if (!map) return -1;
  // A computed index of the only element there is part of no address.
  if (std::any_of(access.terms.begin(), access.terms.end(), [](const IndexTerm& t) { return t.extent == 1; }))
    return -1;
  Substitution s(in.producer.kernel, in.out.kernel, std::move(*map), in.args);
  const int32_t x = s.expression(in.store.expr);
  if (!s.ok() || !s.traps()) return -1;
  const DType dtype = in.producer.kernel.args[static_cast<size_t>(in.store.access.arg)].dtype;
  return through_dtype(in.out.kernel, x, dtype, in.options.strict);
}

bool replace_loads(Inlining& in) {
  Kernel& k = in.out.kernel;
  const std::vector<Expr> old = std::move(k.exprs);
  k.exprs.clear();
  const size_t accesses = k.accesses.size();
  std::vector<int32_t> renamed(old.size(), -1), replaced(accesses, -1);
  std::vector<bool> access_done(accesses, false);
  for (size_t i = 0; i < old.size(); ++i) {
    Expr e = old[i];
    rename_operands(e, renamed);
    if (e.op == ExprOp::load) {
      const auto at = static_cast<size_t>(e.integer);
      if (!access_done[at]) rename_terms(k.accesses[at], renamed);
      access_done[at] = true;
      if (k.accesses[at].arg == in.arg) {
        if (replaced[at] < 0) replaced[at] = value_at(in, Access(k.accesses[at]));
        if (replaced[at] < 0) return false;
        renamed[i] = cast_to(k, replaced[at], e.type);
        continue;
      }
    }
    renamed[i] = add_expr(k, e);
  }
  rename_stores(k, renamed);
  return true;
}

// The consumer's first access of the value; null when only its contraction reads it.
const Access* first_access(const Kernel& k, int arg) {
  const auto found = std::find_if(k.accesses.begin(), k.accesses.end(), [&](const Access& a) { return a.arg == arg; });
  return found == k.accesses.end() ? nullptr : &*found;
}

}  // namespace

std::optional<BoundKernel> inline_value(const BoundKernel& consumer, const BoundKernel& given_producer, int value,
                                        bool aligned, const FuseOptions& options) {
  const int arg = find_arg(consumer, value, false);
  const int out_arg = find_arg(given_producer, value, true);
  if (arg < 0 || out_arg < 0 || given_producer.kernel.contraction || given_producer.kernel.call ||
      consumer.kernel.call || has_order(given_producer.kernel) || has_fourier(given_producer.kernel))
    return std::nullopt;
  BoundKernel producer = given_producer;
  if (store_of(producer.kernel, out_arg) && is_copy(producer.kernel))
    split_at_guards(producer, out_arg, consumer.kernel, arg);
  const KernelArg stored_arg = producer.kernel.args[static_cast<size_t>(out_arg)];
  if (stored_arg.updates >= 0) return std::nullopt;
  for (const KernelArg& a : consumer.kernel.args)
    if (a.updates == arg) return std::nullopt;  // it needs the buffer itself
  const Store* store = store_of(producer.kernel, out_arg);
  if (!store) return std::nullopt;
  const auto stored = stored_dims(producer.kernel, store->access, stored_arg.elements);
  if (!stored) return std::nullopt;

  BoundKernel out = consumer;
  Kernel& k = out.kernel;
  if (!split_until_mapped(k, arg, *stored)) return std::nullopt;
  if (producer.kernel.row_dims > 0) {
    const Access* access = first_access(k, arg);
    if (k.contraction || !access) return std::nullopt;
    std::optional<SplitRequest> split;
    const auto map = map_access(*access, k.space, *stored, split);
    if (!map || !take_row(k, producer.kernel, *stored, *map)) return std::nullopt;
  } else if (aligned && points(k.space) != points(producer.kernel.space)) {
    return std::nullopt;
  }
  if (k.contraction && !compose_operands(out, producer, arg, *stored)) return std::nullopt;

  Inlining in{out, producer, *store, *stored, arg, std::vector<int>(producer.kernel.args.size(), -1), options, {}};
  for (size_t i = 0; i < in.args.size(); ++i)
    if (!producer.kernel.args[i].written) in.args[i] = add_arg(out, producer.kernel.args[i], producer.values[i]);
  if (!replace_loads(in)) return std::nullopt;
  order_args(out);
  simplify(out);
  // What is ordered or transformed is in memory.
  if ((has_order(k) && !order_problem(k).empty()) || (has_fourier(k) && !fourier_problem(k).empty()))
    return std::nullopt;
  if (!beyond_limits(out.kernel).empty()) return std::nullopt;
  return out;
}

}  // namespace npusim
