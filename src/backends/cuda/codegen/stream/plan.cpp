// What each step becomes, and what it must wait for.
#include "backends/cuda/codegen/stream/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/cuda/codegen/stream/block_memory.h"
#include "backends/cuda/codegen/stream/slices.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/order.h"
#include "kernel/fuse/unfuse.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream {
namespace {

using Kind = StreamStage::Kind;

constexpr int64_t most_everywhere = 1 << 15;  // points, with what each sums, that every block computes for itself
constexpr int64_t most_spread = 1 << 22;      // of what is no product of its own
constexpr int64_t cheap_bytes = 24 << 10;     // of a block's values: they cost the ring no slot, as a rule

int64_t bytes_of(const KernelArg& arg) { return arg.elements * static_cast<int64_t>(dtype_size(arg.dtype)); }

int64_t points_of(const Kernel& k) {
  int64_t points = 1;
  for (int64_t extent : k.space) points *= extent;
  return points;
}

class Planner {
 public:
  explicit Planner(const facts::StreamSteps& steps)
      : m_(steps.method), contracted_(steps.contracted), ring_keys_(steps.ring) {
    plan_.device = steps.device, plan_.ring = steps.layout;
  }

  std::optional<StreamPlan> run(std::string& why) {
    bool streams = false;
    for (size_t s = 0; s < m_.steps.size(); ++s) {
      why = prepare(s);
      if (!why.empty()) {
        why = fmt::format("{}: {}", m_.steps[s].kernel->name, why);
        return std::nullopt;
      }
      streams = streams || plan_.products[s];
    }
    why = "no product of few rows";
    if (!streams) return std::nullopt;
    count_uses();
    find_exchanges();
    for (size_t s = 0; s < m_.steps.size(); ++s)
      if (plan_.attentions[s] && mask_is_given(s)) inspect(s);
    why = order();
    if (!why.empty()) return std::nullopt;
    plan_.kept_bytes = memory_.assign(spans_of_rows(), cheap_bytes);
    plan_prefetches();
    for (const auto& [step, at] : scratch_) plan_.scratch[static_cast<size_t>(step)] = at;
    for (const auto& [step, by] : inspected_by_) {
      plan_.seen[step] = seen_.at(static_cast<int32_t>(by));
      if (plan_.attentions[step]->ring) plan_.awaited_inspections.insert(by);
    }
    find_slices(m_, plan_);
    return std::move(plan_);
  }

 private:
  ValueUse use(int32_t value) const { return m_.uses[static_cast<size_t>(value)]; }

  // What the step is by itself; why it is nothing.
  std::string prepare(size_t s) {
    const Kernel& kernel = *m_.steps[s].kernel;
    plan_.kernels.push_back(kernel);
    plan_.products.emplace_back();
    plan_.attentions.emplace_back();
    plan_.schedules.emplace_back();
    if (!kernel.contraction) return as_rows(s);
    std::string why;
    if (kernel.contraction->kind == ContractionKind::attention) {
      plan_.attentions[s] = facts::find_stream_attention(kernel, contracted_[s], plan_.device.units, why);
      if (const auto ring = ring_keys_.find(s); ring != ring_keys_.end()) plan_.attentions[s]->use_ring(ring->second);
      return why;
    }
    auto product = facts::find_stream_product(kernel, contracted_[s], why);
    if (product && use(m_.steps[s].values[static_cast<size_t>(product->matrix)]) != ValueUse::known)
      why = "a matrix that is not known before the run", product.reset();
    if (product) {
      plan_.products[s] = std::move(product);
      return {};
    }
    const Unfused rows = unfuse(kernel);
    if (rows.steps.size() != 1) return fmt::format("{}, and {} parts", why, rows.steps.size());
    plan_.kernels[s] = only_step(kernel, rows.steps[0]);
    const std::string problem = as_rows(s);
    return problem.empty() ? problem : fmt::format("{} ({})", problem, why);
  }

  std::string as_rows(size_t s) {
    const Kernel& k = plan_.kernels[s];
    if (has_order(k)) return "it orders rows";
    plan_.schedules[s] = choose_lanes(k, stream_dialect(), 1);
    plan_.schedules[s].threads = facts::stream_threads;
    if (points_of(k) > most_spread) return fmt::format("{} points", points_of(k));
    return cannot_print(k, stream_dialect(), plan_.schedules[s]).value_or("");
  }

  void count_uses() {
    plan_.bytes.resize(m_.uses.size());
    writers_.resize(m_.uses.size());
    for (size_t s = 0; s < m_.steps.size(); ++s)
      for (size_t i = 0; i < plan_.kernels[s].args.size(); ++i) {
        const auto v = static_cast<size_t>(m_.steps[s].values[i]);
        plan_.bytes[v] = bytes_of(plan_.kernels[s].args[i]);
        writers_[v] += plan_.kernels[s].args[i].written;
      }
  }
  int writers(int32_t value) const { return writers_[static_cast<size_t>(value)]; }

  // Every block may compute all of it: it is small, and reads nothing that it overwrites.
  bool may_be_everywhere(size_t s) const {
    const Kernel& k = plan_.kernels[s];
    const std::vector<int32_t>& values = m_.steps[s].values;
    if (points_of(k) > most_everywhere) return false;
    if (std::any_of(k.stores.begin(), k.stores.end(), [](const Store& store) { return store.accumulate; }))
      return false;
    for (const Expr& e : k.exprs) {
      if (e.op != ExprOp::load) continue;
      const int32_t read = values[static_cast<size_t>(k.accesses[static_cast<size_t>(e.integer)].arg)];
      for (size_t i = 0; i < k.args.size(); ++i)
        if (k.args[i].written && values[i] == read) return false;
    }
    return true;
  }

  // Values that a product of one row or an attention makes, all of it and nobody else.
  void find_exchanges() {
    for (size_t s = 0; s < m_.steps.size(); ++s) {
      const Kernel& k = plan_.kernels[s];
      if (!plan_.attentions[s] && (!plan_.products[s] || plan_.products[s]->rows.size() != 1)) continue;
      if (k.stores.size() != 1) continue;
      const Access& to = k.stores[0].access;
      const KernelArg& arg = k.args[static_cast<size_t>(to.arg)];
      const int32_t v = m_.steps[s].values[static_cast<size_t>(to.arg)];
      const size_t bytes = dtype_size(arg.dtype);
      if (use(v) != ValueUse::inside || writers(v) != 1 || bytes_of(arg) > most_everywhere ||
          (bytes != 2 && bytes != 4))
        continue;
      const int64_t unit = arg.elements % 2 ? 1 : 2;  // as lines are dealt
      StreamExchange e{arg.elements / unit, unit, arg.dtype};
      if (plan_.products[s] &&
          (!facts::lies_flat(to, *plan_.products[s]) || plan_.products[s]->lines.size() != arg.elements))
        continue;
      if (plan_.attentions[s]) {
        const AttentionAxes& axes = plan_.attentions[s]->axes;
        const int64_t columns = axes.columns.size(), rows = axes.rows.size();
        if (to.offset != 0 || !to.guards.empty() || !to.terms.empty() || !facts::is_dense(to, axes.columns, 1) ||
            !facts::is_dense(to, axes.rows, columns) || !facts::is_dense(to, axes.batch, rows * columns) ||
            axes.batch.size() * rows * columns != arg.elements)
          continue;
        e = {arg.elements / facts::quad_columns, facts::quad_columns, arg.dtype};
      }
      plan_.exchanges[v] = e;
      maker_[v] = s;
    }
    std::set<int32_t> wanted;  // by other blocks than those that make it
    for (size_t s = 0; s < m_.steps.size(); ++s)
      for (size_t i = 0; i < plan_.kernels[s].args.size(); ++i) {
        const int32_t v = m_.steps[s].values[i];
        if (!plan_.exchanges.contains(v) || plan_.kernels[s].args[i].written) continue;
        const bool x = plan_.products[s] && static_cast<int>(i) == plan_.products[s]->x;
        if (x || !reads_own_line(s, v, maker_.at(v))) wanted.insert(v);
      }
    std::erase_if(plan_.exchanges, [&](const auto& exchange) { return !wanted.contains(exchange.first); });
  }

  // The memory of what other stages since the last wait did to a value in memory that all blocks see.
  struct Touched {
    bool by_parts = false, by_all = false, read = false;
    std::optional<size_t> product;  // which made it, line by line
  };

  // Whether the step reads the value only at its own line and row, as they were made.
  bool reads_own_line(size_t s, int32_t value, std::optional<size_t> made_by) const {
    if (!plan_.products[s] || !made_by || !plan_.products[*made_by]) return false;
    const facts::StreamProduct &mine = *plan_.products[s], &its = *plan_.products[*made_by];
    if (mine.lines.size() != its.lines.size() || mine.rows.size() != its.rows.size()) return false;
    const Kernel &k = plan_.kernels[s], &maker = plan_.kernels[*made_by];
    for (const Store& store : maker.stores)
      if (m_.steps[*made_by].values[static_cast<size_t>(store.access.arg)] == value &&
          !facts::lies_flat(store.access, its))
        return false;
    for (const Expr& e : k.exprs)
      if (e.op == ExprOp::load) {
        const Access& a = k.accesses[static_cast<size_t>(e.integer)];
        if (m_.steps[s].values[static_cast<size_t>(a.arg)] == value && !facts::lies_flat(a, mine)) return false;
      }
    return true;
  }

  bool waits(Kind kind, size_t step, const std::vector<int32_t>& read, const std::vector<int32_t>& written) const {
    for (int32_t v : read)
      if (const auto t = touched_.find(v); t != touched_.end() && t->second.by_parts)
        if (kind != Kind::product || !reads_own_line(step, v, t->second.product)) return true;
    return std::any_of(written.begin(), written.end(), [&](int32_t v) {
      const auto t = touched_.find(v);
      return t != touched_.end() && (t->second.by_parts || t->second.by_all || t->second.read);
    });
  }

  void append(Kind kind, size_t step, const std::vector<int32_t>& read, const std::vector<int32_t>& written,
              std::vector<int32_t> values = {}) {
    const bool wait = waits(kind, step, read, written);
    if (wait) touched_.clear();
    plan_.stages.push_back({kind, step, wait, std::move(values)});
    for (int32_t v : read) touched_[v].read = true;
    for (int32_t v : written) {
      Touched& t = touched_[v];
      (kind == Kind::everywhere ? t.by_all : t.by_parts) = true;
      t.product.reset();
      if (kind == Kind::product) t.product = step;
    }
  }

  // Where rows follow each other that every block computes: those that have nothing to do with each other need not wait
  // for each other, if what they read and make has memory of its own.
  std::vector<BlockMemory::Span> spans_of_rows() const {
    std::vector<BlockMemory::Span> spans;
    for (int64_t i = 0; i < now(); ++i) {
      if (plan_.stages[static_cast<size_t>(i)].kind != Kind::everywhere) continue;
      if (spans.empty() || spans.back().second + 1 < i) spans.emplace_back(i, i);
      spans.back().second = i;
    }
    return spans;
  }

  int64_t now() const { return static_cast<int64_t>(plan_.stages.size()); }

  void keep(BlockMemory::Offsets& where, int32_t value, int64_t bytes) { memory_.keep(where, value, bytes, now()); }

  // What the mask of an attention may read.
  std::vector<int32_t> mask_values(size_t s) const {
    std::vector<int32_t> values;
    if (plan_.attentions[s]->inspected_chunks == 0) return values;
    for (int arg : facts::score_arguments(plan_.kernels[s]))
      values.push_back(m_.steps[s].values[static_cast<size_t>(arg)]);
    return values;
  }
  bool mask_is_given(size_t s) const {
    const std::vector<int32_t> values = mask_values(s);
    if (plan_.attentions[s]->ring) return plan_.attentions[s]->inspected_chunks > 0;  // until the attention at least
    return plan_.attentions[s]->inspected_chunks > 0 && std::none_of(values.begin(), values.end(), [&](int32_t v) {
             return writers(v) > 0 || use(v) == ValueUse::inside;
           });
  }
  // One inspection does for all attentions of the same mask.
  void inspect(size_t s) {
    const facts::StreamAttention& attention = *plan_.attentions[s];
    const std::vector<int32_t> values = mask_values(s);
    std::string mask = fmt::format("{} {} {}\n", attention.splits, attention.inspected_chunks, fmt::join(values, " "));
    const auto add = [&](Kernel k) { k.name.clear(), mask += to_text(k); };
    if (attention.mask >= 0) add(facts::stored_mask(plan_.kernels[s], attention.mask));
    if (plan_.attentions[s]->counted) add(stored_count(plan_.kernels[s]));
    const auto [known, fresh] = inspected_.try_emplace(std::move(mask), s);
    inspected_by_[s] = known->second;
    if (!fresh) return;
    keep(seen_, static_cast<int32_t>(s), attention.seen_bytes());
    append(Kind::inspect, s, values, {});
    keep(seen_, static_cast<int32_t>(s), 0);
  }

  // What a step does to memory that all blocks see.
  struct Effects {
    Kind kind = Kind::spread;
    std::vector<int32_t> read, written;
    std::vector<int32_t> kept;  // what it makes in the memory of each block
    bool gathers = false;
    std::vector<int32_t> exchanged;  // what it needs of others
  };
  Effects effects_of(size_t s) const {
    const Kernel& k = plan_.kernels[s];
    const std::vector<int32_t>& values = m_.steps[s].values;
    Effects e;
    if (plan_.products[s])
      e.kind = Kind::product;
    else if (plan_.attentions[s])
      e.kind = Kind::attention;
    else if (may_be_everywhere(s))
      e.kind = Kind::everywhere;
    for (size_t i = 0; i < k.args.size(); ++i) {
      const int32_t v = values[i];
      const bool x = e.kind == Kind::product && static_cast<int>(i) == plan_.products[s]->x;
      if (plan_.exchanges.contains(v)) {
        if (k.args[i].written)
          e.kept.push_back(v);
        else if (!come_.contains(v) && (x || !reads_own_line(s, v, maker_.at(v))))
          e.exchanged.push_back(v);
        continue;
      }
      if (plan_.homes.contains(v) || use(v) == ValueUse::known) continue;
      if (k.args[i].written) {
        const bool keeps = e.kind == Kind::everywhere && use(v) == ValueUse::inside && !made_.contains(v) &&
                           bytes_of(k.args[i]) <= most_everywhere;
        (keeps ? e.kept : e.written).push_back(v);
      } else if (!x) {
        e.read.push_back(v);
      }
    }
    if (e.kind == Kind::product) {
      const int32_t x = values[static_cast<size_t>(plan_.products[s]->x)];
      e.gathers = !plan_.homes.contains(x) && !(plan_.copies.contains(x) && use(x) == ValueUse::inside);
    }
    return e;
  }

  bool would_wait(size_t s) const {
    const Effects e = effects_of(s);
    if (!e.exchanged.empty()) return true;
    if (e.gathers && waits(Kind::gather, s, {m_.steps[s].values[static_cast<size_t>(plan_.products[s]->x)]}, {}))
      return true;
    return waits(e.kind, s, e.read, e.kind == Kind::attention ? std::vector<int32_t>{} : e.written);
  }

  std::string add(size_t s) {
    const Kernel& k = plan_.kernels[s];
    const std::vector<int32_t>& values = m_.steps[s].values;
    Effects e = effects_of(s);
    for (size_t i = 0; i < k.args.size(); ++i) {
      if (!k.args[i].written) continue;
      if (plan_.homes.contains(values[i]) && e.kind != Kind::everywhere && !plan_.exchanges.contains(values[i]))
        return "it updates what every block has";
      made_.insert(values[i]);
      if (plan_.exchanges.contains(values[i])) in_flight_.insert(values[i]);
      at_[values[i]] = plan_.stages.size();
      if (std::count(e.kept.begin(), e.kept.end(), values[i])) keep(plan_.homes, values[i], bytes_of(k.args[i]));
    }
    for (int32_t v : values)
      if (plan_.homes.contains(v)) keep(plan_.homes, v, 0);
    if (!e.exchanged.empty()) {  // what else is in flight comes along
      std::vector<int32_t> coming;
      for (int32_t v : in_flight_)
        if (maker_.at(v) != s && come_.insert(v).second) coming.push_back(v);
      for (int32_t v : coming) in_flight_.erase(v);
      std::sort(coming.begin(), coming.end(), [&](int32_t a, int32_t b) { return at_.at(a) < at_.at(b); });
      for (int32_t v : coming) keep(plan_.homes, v, 0);
      plan_.stages.push_back({Kind::exchange, s, false, coming});
      for (int32_t v : coming) keep(plan_.homes, v, 0);
    }
    if (e.kind == Kind::product) {
      const int32_t x = values[static_cast<size_t>(plan_.products[s]->x)];
      if (!plan_.homes.contains(x)) keep(plan_.copies, x, bytes_of(k.args[static_cast<size_t>(plan_.products[s]->x)]));
      if (e.gathers) append(Kind::gather, s, {x}, {}, {x});
      if (!plan_.homes.contains(x)) keep(plan_.copies, x, 0);
    }
    if (e.kind == Kind::attention) {
      if (plan_.attentions[s]->inspected_chunks > 0) {
        if (!mask_is_given(s)) inspected_.clear(), inspect(s);
        keep(seen_, static_cast<int32_t>(inspected_by_.at(s)), 0);
      }
      plan_.partial_bytes = std::max(plan_.partial_bytes, plan_.attentions[s]->partial_bytes);
      keep(scratch_, static_cast<int32_t>(s), plan_.attentions[s]->shared_bytes());
      append(Kind::attention, s, e.read, {});  // its parts travel as what is exchanged does
      e.kind = Kind::merge;
    }
    for (int32_t v : values)
      if (plan_.homes.contains(v)) keep(plan_.homes, v, 0);
    append(e.kind, s, e.read, e.written);
    return {};
  }

  // As the steps stand, but what need not wait for all blocks goes before what must.
  std::string order() {
    const size_t count = m_.steps.size();
    std::vector<std::vector<size_t>> users(count);
    std::vector<size_t> missing(count, 0);
    std::map<int32_t, std::pair<std::vector<size_t>, std::vector<size_t>>> seen;  // by value: readers, writers
    for (size_t s = 0; s < count; ++s) {
      std::set<size_t> before;
      const Kernel& k = plan_.kernels[s];
      for (size_t i = 0; i < k.args.size(); ++i) {
        auto& [readers, writers] = seen[m_.steps[s].values[i]];
        before.insert(writers.begin(), writers.end());
        if (k.args[i].written) before.insert(readers.begin(), readers.end());
      }
      for (size_t i = 0; i < k.args.size(); ++i) {
        auto& [readers, writers] = seen[m_.steps[s].values[i]];
        if (k.args[i].written)
          readers.clear(), writers = {s};
        else
          readers.push_back(s);
      }
      before.erase(s);
      for (size_t b : before) users[b].push_back(s);
      missing[s] = before.size();
    }
    std::set<size_t> ready;
    for (size_t s = 0; s < count; ++s)
      if (missing[s] == 0) ready.insert(s);
    while (!ready.empty()) {
      auto next = std::find_if(ready.begin(), ready.end(), [&](size_t s) { return !would_wait(s); });
      if (next == ready.end()) next = ready.begin();
      const size_t s = *next;
      ready.erase(next);
      if (const std::string why = add(s); !why.empty()) return fmt::format("{}: {}", m_.steps[s].kernel->name, why);
      for (size_t user : users[s])
        if (--missing[user] == 0) ready.insert(user);
    }
    return {};
  }

  // Keys and values are asked for before the last exchange that attention waits for; where they are few, before the one
  // before that.
  void plan_prefetches() {
    std::vector<StreamStage>& stages = plan_.stages;
    std::map<size_t, size_t> inspections;  // by step: where
    for (size_t i = 0; i < stages.size(); ++i) {
      if (stages[i].kind == Kind::inspect) inspections[stages[i].step] = i;
      if (stages[i].kind != Kind::attention || plan_.attentions[stages[i].step]->ring) continue;
      size_t before = i;
      while (before > 0 && stages[before].kind != Kind::exchange) --before;
      if (stages[before].kind != Kind::exchange) continue;
      if (plan_.attentions[stages[i].step]->chunks() == 1) {
        size_t earlier = before - 1;
        while (earlier > 0 && stages[earlier].kind != Kind::exchange && stages[earlier].kind != Kind::attention)
          --earlier;
        if (stages[earlier].kind == Kind::exchange) before = earlier;
      }
      StreamStage ahead{Kind::ahead, stages[i].step};
      if (const auto by = inspected_by_.find(ahead.step); by != inspected_by_.end())
        if (const auto inspect = inspections.find(by->second); inspect != inspections.end())
          ahead.inspected = inspect->second < before;
      stages.insert(stages.begin() + static_cast<ptrdiff_t>(before), std::move(ahead));
      ++i;
    }
  }

  const WholeMethod& m_;
  const std::vector<plan::Contracted>& contracted_;
  const std::map<size_t, facts::RingKeys>& ring_keys_;
  StreamPlan plan_;
  std::map<int32_t, Touched> touched_;
  std::set<int32_t> made_;
  std::map<int32_t, int64_t> scratch_;       // of attentions, by step
  std::map<int32_t, int64_t> seen_;          // by the step that inspected
  std::map<std::string, size_t> inspected_;  // by the mask: the step
  std::map<size_t, size_t> inspected_by_;    // by step
  std::map<int32_t, size_t> maker_;          // of what is exchanged: the step
  std::vector<int> writers_;                 // by value: how many steps
  std::set<int32_t> in_flight_;              // of what is exchanged: what has been made and has not come
  std::set<int32_t> come_;                   // what has
  std::map<int32_t, size_t> at_;             // by value: the stage after which it was made
  BlockMemory memory_;
};

}  // namespace

std::optional<StreamPlan> plan_stream(const facts::StreamSteps& steps, std::string& why) {
  return Planner(steps).run(why);
}

const Dialect& stream_dialect() {
  static const Dialect dialect = [] {
    Dialect d = cuda_dialect;
    d.barrier = d.memory_barrier = "meet_block();";
    return d;
  }();
  return dialect;
}

}  // namespace npusim::cuda::codegen::stream
