// From the operands of an attention back to what is exchanged, as long as nobody else reads it.
#include "backends/cuda/codegen/stream/slices.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "backends/cuda/codegen/stream/text.h"
#include "print/plan.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream {
namespace {

using Kind = StreamStage::Kind;

class Finder {
 public:
  Finder(const WholeMethod& method, StreamPlan& plan) : m_(method), plan_(plan) {
    readers_.resize(m_.uses.size()), writers_.resize(m_.uses.size());
    for (size_t s = 0; s < plan_.kernels.size(); ++s)
      for (size_t i = 0; i < plan_.kernels[s].args.size(); ++i) {
        std::vector<size_t>& list = (plan_.kernels[s].args[i].written ? writers_ : readers_)[value(s, i)];
        if (list.empty() || list.back() != s) list.push_back(s);
      }
    for (const StreamStage& stage : plan_.stages)
      if (stage.kind == Kind::everywhere) everywhere_.insert(stage.step);
  }

  void run() {
    for (size_t s = 0; s < plan_.kernels.size(); ++s)
      if (plan_.attentions[s] &&
          plan_.attentions[s]->axes.batch.size() * plan_.attentions[s]->splits <= plan_.device.units)
        slice(s);
  }

 private:
  size_t value(size_t step, size_t arg) const { return static_cast<size_t>(m_.steps[step].values[arg]); }

  void slice(size_t s) {
    const Kernel& k = plan_.kernels[s];
    const facts::StreamAttention& attention = *plan_.attentions[s];
    const AttentionAxes& axes = attention.axes;
    const int64_t batches = axes.batch.size();
    const Access &queries = attention.queries(k), &keys = attention.keys(k), &values = k.contraction->b;
    const size_t asked = value(s, static_cast<size_t>(queries.arg));
    const int64_t each = k.args[static_cast<size_t>(queries.arg)].elements / batches;
    int64_t reach = queries.offset;
    for (const Axis* axis : {&axes.rows, &axes.depth})
      for (size_t n = 0; n < axis->dims.size(); ++n)
        reach += std::abs(queries.strides[static_cast<size_t>(axis->dims[n])]) * (axis->extents[n] - 1);
    if (are_apart(queries, axes.batch, each) && queries.guards.empty() && queries.terms.empty() && reach < each &&
        readers_[asked] == std::vector<size_t>{s})
      slice_value(asked, {s});
    if (attention.ring)
      for (const facts::StepRow& row : {attention.ring->key_row, attention.ring->value_row})
        if (row.argument >= 0) slice_step(row.step, {s, row.step, row.step_position});
    for (const Access* cache : {&keys, &values}) {
      const size_t v = value(s, static_cast<size_t>(cache->arg));
      const Axis& along = cache == &keys ? axes.keys : axes.value_keys;
      if (writers_[v].size() == 1 && cache->offset == 0 && cache->guards.empty() && cache->terms.empty())
        slice_rows(writers_[v][0], s, v, *cache, along);
    }
  }

  // Whether batches are so many elements apart.
  static bool are_apart(const Access& access, const Axis& batch, int64_t each) {
    return batch.size() == 1 || facts::batch_stride(access, batch) == each;
  }

  // Whether all that the access reaches for one index of the outermost dimension is less than `each` elements.
  static bool stays_within(const Kernel& k, const Access& a, int64_t each) {
    int64_t reach = a.offset;
    for (const Guard& g : a.guards) {
      if (g.stride < 0 || g.coeffs[0] != 0) return false;
      reach += g.stride * (g.limit - 1);
    }
    for (size_t d = 1; d < k.space.size(); ++d) {
      if (a.strides[d] < 0) return false;
      reach += a.strides[d] * (k.space[d] - 1);
    }
    return a.terms.empty() && a.offset >= 0 && reach < each;
  }

  // What blocks need of a value, and of those that rows are made of.
  void slice_value(size_t v, const StreamSlice& slice) {
    if (plan_.exchanges.contains(static_cast<int32_t>(v))) {
      const StreamExchange& e = plan_.exchanges.at(static_cast<int32_t>(v));
      if (e.units % batches_of(slice) == 0) plan_.slices[static_cast<int32_t>(v)] = slice;
      return;
    }
    if (writers_[v].size() != 1 || !plan_.homes.contains(static_cast<int32_t>(v))) return;
    const size_t s = writers_[v][0];
    const Kernel& k = plan_.kernels[s];
    if (k.stores.size() != 1) return;
    const Access& to = k.stores[0].access;
    const int64_t outer = k.space.empty() ? 0 : k.space[0];
    if (outer == 0 || to.strides[0] * outer != k.args[static_cast<size_t>(to.arg)].elements ||
        !stays_within(k, to, to.strides[0]))
      return;
    slice_step(s, slice);
  }

  // Of rows whose outermost dimension has the batches.
  void slice_step(size_t s, const StreamSlice& slice) {
    const Kernel& k = plan_.kernels[s];
    const int64_t outer = k.space[0];
    if (!everywhere_.contains(s) || outer % batches_of(slice) != 0 || !rows_in_order(s)) return;
    plan_.row_slices[s] = slice;
    for (size_t i = 0; i < k.args.size(); ++i) {
      const size_t u = value(s, i);
      if (k.args[i].written || readers_[u] != std::vector<size_t>{s}) continue;
      const int64_t each = k.args[i].elements / outer;
      const bool apart = std::all_of(k.accesses.begin(), k.accesses.end(), [&](const Access& a) {
        return a.arg != static_cast<int>(i) || (a.strides[0] == each && stays_within(k, a, each));
      });
      if (apart && each * outer == k.args[i].elements) slice_value(u, slice);
    }
  }

  // Rows that a step writes into the keys or values of an attention, which alone reads them, each at the position of
  // one of all its keys, which is given.
  void slice_rows(size_t s, size_t attention, size_t cache, const Access& read, const Axis& along) {
    const Kernel& k = plan_.kernels[s];
    const AttentionAxes& axes = plan_.attentions[attention]->axes;
    for (size_t reader : readers_[cache])
      if (reader != attention && reader != s) return;
    if (k.stores.size() != 1 || k.stores[0].accumulate || k.space.empty() || axes.keys.dims.size() != 1) return;
    const Access& to = k.stores[0].access;
    if (to.terms.size() != 1 || to.offset != 0 || !to.guards.empty()) return;
    const IndexTerm& term = to.terms[0];
    const Expr& index = k.exprs[static_cast<size_t>(term.expr)];
    if (index.op != ExprOp::load || term.extent != axes.keys.size()) return;
    const Access& position = k.accesses[static_cast<size_t>(index.integer)];
    const KernelArg& number = k.args[static_cast<size_t>(position.arg)];
    const size_t given = value(s, static_cast<size_t>(position.arg));
    if (number.elements != 1 || number.dtype != DType::i64) return;
    // Blocks read it before the step, with what they exchange: it must not be made until then.
    if (m_.uses[given] == ValueUse::inside ||
        std::any_of(writers_[given].begin(), writers_[given].end(), [&](size_t writer) { return writer <= s; }))
      return;
    if (term.stride != read.strides[static_cast<size_t>(along.dims[0])] || k.space[0] != axes.batch.size() ||
        !are_apart(read, axes.batch, to.strides[0]))
      return;
    slice_step(s, {attention, s, position.arg});
  }

  int64_t batches_of(const StreamSlice& slice) const { return plan_.attentions[slice.attention]->axes.batch.size(); }

  // Threads take the rows as they stand.
  bool rows_in_order(size_t s) const {
    const Kernel& k = plan_.kernels[s];
    const Schedule& schedule = plan_.schedules[s];
    if ((schedule.row == RowLoop::none) != (k.row_dims == 0)) return false;
    const PrintPlan plan = plan_print(k, stream_dialect(), schedule);
    const auto own = static_cast<int>(schedule.row == RowLoop::none ? plan.kernel.space.size() : plan.outer());
    return threads_of_rows(k, schedule) > 0 && plan.points % k.space[0] == 0 &&
           (plan.lane_dim < 0 || plan.lane_dim >= own - 1);
  }

  const WholeMethod& m_;
  StreamPlan& plan_;
  std::vector<std::vector<size_t>> readers_, writers_;  // by value: steps
  std::set<size_t> everywhere_;                         // steps
};

}  // namespace

void find_slices(const WholeMethod& method, StreamPlan& plan) { Finder(method, plan).run(); }

int64_t threads_of_rows(const Kernel& kernel, const Schedule& schedule) {
  if (schedule.row == RowLoop::block) return 0;
  const PrintPlan plan = plan_print(kernel, stream_dialect(), schedule);
  return plan.points * (schedule.row == RowLoop::warp ? stream_dialect().warp : 1);
}

}  // namespace npusim::cuda::codegen::stream
