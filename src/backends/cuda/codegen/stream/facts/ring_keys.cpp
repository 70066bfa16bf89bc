// Searches the steps of a method for keys and values that the producer can copy ahead.
#include "backends/cuda/codegen/stream/facts/ring_keys.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "print/print.h"

namespace npusim::cuda::codegen::stream::facts {
namespace {

struct OwnRow {
  size_t step = 0;    // that writes it
  int position = -1;  // its argument: where
};

class Finder {
 public:
  explicit Finder(StreamSteps& steps) : s_(steps), m_(steps.method) {
    readers_.resize(m_.uses.size()), writers_.resize(m_.uses.size());
    for (size_t s = 0; s < m_.steps.size(); ++s)
      for (size_t i = 0; i < m_.steps[s].kernel->args.size(); ++i)
        (m_.steps[s].kernel->args[i].written ? writers_ : readers_)[value(s, static_cast<int>(i))].push_back(s);
  }

  void run() {
    for (size_t s = 0; s < m_.steps.size(); ++s)
      if (const Kernel& k = *m_.steps[s].kernel; k.contraction && k.contraction->kind == ContractionKind::attention)
        find(s);
  }

 private:
  size_t value(size_t step, int arg) const {
    return static_cast<size_t>(m_.steps[step].values[static_cast<size_t>(arg)]);
  }
  // Until the step has run.
  bool is_given(size_t v, size_t step) const {
    return m_.uses[v] != ValueUse::inside &&
           std::all_of(writers_[v].begin(), writers_[v].end(), [&](size_t writer) { return writer > step; });
  }

  void find(size_t s) {
    const Kernel& k = *m_.steps[s].kernel;
    std::string why;
    const auto attention = find_stream_attention(k, s_.contracted[s], s_.device.units, why);
    if (!attention || !attention->can_use_ring || takes_trap(k)) return;
    const Access &keys = attention->keys(k), &values = k.contraction->b;
    const RingLayout layout = ring_layout(k, *attention);
    if (s_.layout && !(*s_.layout == layout)) return;
    for (int arg : score_arguments(k))
      if (!is_given(value(s, arg), s)) return;
    std::optional<OwnRow> rows[2];
    const std::pair<const Access*, const Axis*> both[] = {{&keys, &attention->axes.keys},
                                                          {&values, &attention->axes.value_keys}};
    if (value(s, keys.arg) == value(s, values.arg)) return;
    for (size_t n = 0; n < 2; ++n) {
      const auto& [read, along] = both[n];
      const size_t v = value(s, read->arg);
      if (m_.uses[v] != ValueUse::inside && writers_[v].empty()) continue;
      if (m_.uses[v] == ValueUse::inside || writers_[v].size() != 1) return;
      rows[n] = find_row(writers_[v][0], s, *attention, *read, *along);
      if (!rows[n]) return;
    }
    RingKeys ring;
    Kernel with_rows = k;
    GroupStep& step = m_.steps[s];
    const int64_t batches = attention->axes.batch.size();
    const int64_t sizes[] = {attention->axes.depth.size(), attention->axes.columns.size()};
    std::vector<KernelArg> args;
    std::vector<int32_t> named;
    const auto first_written = std::find_if(k.args.begin(), k.args.end(), [](const KernelArg& a) { return a.written; });
    const int at = static_cast<int>(first_written - k.args.begin());
    for (size_t n = 0; n < 2; ++n) {
      if (!rows[n]) continue;
      StepRow& row = n == 0 ? ring.key_row : ring.value_row;
      row = {at + static_cast<int>(args.size()), at + static_cast<int>(args.size()) + 1, rows[n]->step,
             rows[n]->position};
      args.push_back({k.args[static_cast<size_t>(both[n].first->arg)].dtype, batches * sizes[n], false, -1});
      args.push_back({DType::i64, 1, false, -1});
      named.push_back(keep_row(*rows[n], batches, sizes[n]));
      named.push_back(static_cast<int32_t>(value(rows[n]->step, rows[n]->position)));
    }
    with_rows.args.insert(with_rows.args.begin() + at, args.begin(), args.end());
    for (Store& store : with_rows.stores) store.access.arg += static_cast<int>(args.size());
    step.values.insert(step.values.begin() + at, named.begin(), named.end());
    step.kernel = own(std::move(with_rows));
    s_.layout = layout;
    s_.ring[s] = ring;
  }

  // The step that writes a row of each batch among all keys or values, which nobody else touches, before the attention.
  std::optional<OwnRow> find_row(size_t s, size_t attention, const StreamAttention& a, const Access& read,
                                 const Axis& along) const {
    const Kernel& k = *m_.steps[s].kernel;
    const int64_t batches = a.axes.batch.size();
    const int64_t size = &along == &a.axes.keys ? a.axes.depth.size() : a.axes.columns.size();
    const size_t v = value(attention, read.arg);
    if (s > attention || k.contraction || k.stores.size() != 1 || k.stores[0].accumulate) return std::nullopt;
    for (size_t reader : readers_[v])
      if (reader != attention && reader != s) return std::nullopt;
    const Access& to = k.stores[0].access;
    for (const Access& from : k.accesses)
      if (value(s, from.arg) == v) return std::nullopt;
    if (to.terms.size() != 1 || to.offset != read.offset || !to.guards.empty()) return std::nullopt;
    const IndexTerm& term = to.terms[0];
    const Expr& index = k.exprs[static_cast<size_t>(term.expr)];
    if (index.op != ExprOp::load || term.extent != along.size() ||
        term.stride != read.strides[static_cast<size_t>(along.dims[0])])
      return std::nullopt;
    const int position = k.accesses[static_cast<size_t>(index.integer)].arg;
    const KernelArg& number = k.args[static_cast<size_t>(position)];
    if (number.elements != 1 || number.dtype != DType::i64 || !is_given(value(s, position), attention))
      return std::nullopt;
    // All of each row, every element once.
    std::vector<std::pair<int64_t, int64_t>> strides;  // and extents
    for (size_t d = batches > 1 ? 1 : 0; d < k.space.size(); ++d)
      if (k.space[d] != 1) strides.emplace_back(to.strides[d], k.space[d]);
    std::sort(strides.begin(), strides.end());
    int64_t elements = 1;
    for (const auto& [stride, extent] : strides) {
      if (stride != elements) return std::nullopt;
      elements *= extent;
    }
    if (elements != size) return std::nullopt;
    if (batches > 1 && (k.space.empty() || k.space[0] != batches || batch_stride(read, a.axes.batch) != to.strides[0]))
      return std::nullopt;
    return OwnRow{s, position};
  }

  // Has the step leave its rows one behind the other in a value of the method's own, and says which. An index that is
  // none still traps.
  int32_t keep_row(const OwnRow& row, int64_t batches, int64_t size) {
    GroupStep& step = m_.steps[row.step];
    Kernel k = *step.kernel;
    Access& to = k.stores[0].access;
    KernelArg& arg = k.args[static_cast<size_t>(to.arg)];
    arg.elements = batches * size, arg.updates = -1;
    to.offset = 0, to.terms[0].stride = 0;
    if (batches > 1) to.strides[0] = size;
    const auto made = static_cast<int32_t>(m_.uses.size());
    m_.uses.push_back(ValueUse::inside);
    step.values[static_cast<size_t>(to.arg)] = made;
    step.kernel = own(std::move(k));
    return made;
  }

  const Kernel* own(Kernel k) {
    s_.made.push_back(std::make_shared<const Kernel>(std::move(k)));
    return s_.made.back().get();
  }

  StreamSteps& s_;
  WholeMethod& m_;
  std::vector<std::vector<size_t>> readers_, writers_;  // by value: steps
};

}  // namespace

void find_ring_keys(StreamSteps& steps) { Finder(steps).run(); }

}  // namespace npusim::cuda::codegen::stream::facts
