// What several stages name has one place; what a stage publishes has memory of its own.
#include "backends/cuda/target/stream/table.h"

#include <algorithm>

#include "backends/cuda/target/stream/meetings.h"
#include "backends/cuda/target/stream/text.h"
#include "print/print.h"

namespace npusim::cuda {

using Kind = StreamStage::Kind;

namespace {

constexpr int64_t most_small = 1 << 16;  // bytes of what is asked for ahead without a place in the ring

}  // namespace

std::optional<size_t> published(const WholeMethod& method, const StreamPlan& plan, const StreamStage& stage) {
  if (stage.kind != Kind::product && stage.kind != Kind::merge) return std::nullopt;
  const Kernel& k = plan.kernels[stage.step];
  for (size_t i = 0; i < k.args.size(); ++i)
    if (k.args[i].written && plan.exchanges.contains(method.steps[stage.step].values[i])) return i;
  return std::nullopt;
}

TableWriter::TableWriter(const WholeMethod& method, const StreamPlan& plan) : m_(method), plan_(plan) {
  for (const Kernel& k : plan_.kernels) {
    table.first_trap.push_back(takes_trap(k) ? table.trap_count : -1);
    if (takes_trap(k)) table.trap_count += trap_count(k);
  }
  for (int& pointer : partial_pointers_) pointer = own_pointer(plan_.partial_bytes);
}

int TableWriter::own_pointer(int64_t bytes) {
  table.pointers.push_back(own_from + table.own_bytes);
  table.own_bytes += aligned(bytes);
  return static_cast<int>(table.pointers.size()) - 1;
}

// What is given, or into the block's memory, or behind it into that of the launch.
int TableWriter::pointer(int32_t value, bool copied) {
  const auto [known, fresh] = pointer_of_.try_emplace({value, copied}, static_cast<int>(table.pointers.size()));
  if (!fresh) return known->second;
  const auto home = plan_.homes.find(value);
  if (copied)
    table.pointers.push_back(plan_.copies.at(value));
  else if (home != plan_.homes.end())
    table.pointers.push_back(home->second);
  else if (m_.uses[static_cast<size_t>(value)] == ValueUse::inside)
    own_pointer(plan_.bytes[static_cast<size_t>(value)]);
  else
    table.pointers.push_back(-1 - static_cast<int64_t>(table.values.size())), table.values.push_back(value);
  return known->second;
}

// The memory through which a value is exchanged: room for the words of any number of blocks.
int TableWriter::exchange_pointer(int32_t value) {
  const auto [known, fresh] = exchange_of_.try_emplace(value, static_cast<int>(table.pointers.size()));
  if (!fresh) return known->second;
  const StreamExchange& e = plan_.exchanges.at(value);
  const int64_t each = 12 / static_cast<int64_t>(dtype_size(e.dtype));
  return own_pointer(256 + 16 * (e.units * e.width / each + 4 * stream_grid));
}

// How many blocks have done their part of an attention, roughly.
int TableWriter::counter(int attention) {
  const auto [known, fresh] = counters_.try_emplace(attention, static_cast<int>(table.pointers.size()));
  if (fresh) own_pointer(stream_alignment);
  return known->second;
}

void TableWriter::put_matrix(int32_t value, const std::array<int64_t, 3>& shape) {
  table.matrices.push_back(table.pointers[static_cast<size_t>(pointer(value, false))]);
  table.matrices.push_back(table.shapes.try_emplace(shape, static_cast<int>(table.shapes.size())).first->second);
}

void TableWriter::add(int text, std::span<const StreamStage> chain) {
  const size_t length = table.rows.size();
  table.rows.push_back(0);
  put_number(text | (chain[0].after_all ? stage_waits : 0));
  for (const StreamStage& stage : chain) add(stage);
  table.rows[length] = static_cast<int64_t>(table.rows.size() - length) - 1;
  table.longest_row = std::max(table.longest_row, table.rows[length]);
  ++table.row_count;
}

void TableWriter::add(const StreamStage& stage) {
  const Kernel& k = plan_.kernels[stage.step];
  const std::vector<int32_t>& values = m_.steps[stage.step].values;
  put_number(std::max(table.first_trap[stage.step], 0));
  if (stage.kind == Kind::exchange) {
    for (int32_t v : stage.values) {
      put(exchange_pointer(v));
      put(pointer(v, false));
    }
    return;
  }
  if (stage.kind == Kind::gather) {
    put(pointer(stage.values[0], false));
    put(pointer(stage.values[0], true));
    return;
  }
  for (size_t i = 0; i < k.args.size(); ++i) {
    const bool x = stage.kind == Kind::product && static_cast<int>(i) == plan_.products[stage.step]->x;
    put(pointer(values[i], x && !plan_.homes.contains(values[i])));
  }
  if (stage.kind == Kind::attention || stage.kind == Kind::merge) {
    put(partial_pointers_[merged_ % 2]);
    if (stage.kind == Kind::attention) table.rows.push_back(plan_.scratch.at(stage.step));
    put_number(merged_);
    put(counter(merged_));
    if (stage.kind == Kind::attention && plan_.attentions[stage.step]->looks > 0)
      table.rows.push_back(plan_.seen.at(stage.step));
    if (stage.kind == Kind::merge) ++merged_;
  }
  if (stage.kind == Kind::look) table.rows.push_back(plan_.seen.at(stage.step));
  if (const auto made = published(m_, plan_, stage)) put(exchange_pointer(values[*made]));
  if (stage.kind == Kind::product || stage.kind == Kind::everywhere || stage.kind == Kind::spread)
    ask_for_small(stage.step);
  if (stage.kind != Kind::product) return;
  const StreamProduct& p = *plan_.products[stage.step];
  put_matrix(values[static_cast<size_t>(p.matrix)], {p.lines.size(), p.depth.size(), p.matrix_offset * 2});
}

// What is known before the run and is no matrix is as good as never in the cache: all weights have come by since.
void TableWriter::ask_for_small(size_t step) {
  const Kernel& k = plan_.kernels[step];
  for (size_t i = 0; i < k.args.size(); ++i) {
    const int32_t v = m_.steps[step].values[i];
    const int64_t bytes = plan_.bytes[static_cast<size_t>(v)];
    if (m_.uses[static_cast<size_t>(v)] != ValueUse::known || bytes > most_small) continue;
    if (plan_.products[step] && static_cast<int>(i) == plan_.products[step]->matrix) continue;
    put_matrix(v, {0, bytes, 0});
  }
}

}  // namespace npusim::cuda
