// What several stages name has one location; what a stage publishes has memory of its own.
#include "backends/cuda/codegen/stream/table.h"

#include <algorithm>
#include <cassert>

#include "backends/cuda/codegen/stream/meetings.h"
#include "backends/cuda/codegen/stream/text.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream {

using Kind = StreamStage::Kind;

namespace {

// Of a share of lines, what of the memory that comes with a row is for it; a larger one stays where it is.
int64_t share_bytes(int64_t lines, int64_t each, int64_t blocks) {
  return ((lines / blocks + 2) * each + 15) / 16 * 16;
}

constexpr int64_t most_small = 1 << 16;  // bytes of what is prefetched without a slot of the ring

}  // namespace

std::optional<size_t> published(const WholeMethod& method, const StreamPlan& plan, const StreamStage& stage) {
  if (stage.kind != Kind::product && stage.kind != Kind::merge) return std::nullopt;
  const Kernel& k = plan.kernels[stage.step];
  for (size_t i = 0; i < k.args.size(); ++i)
    if (k.args[i].written && plan.exchanges.contains(method.steps[stage.step].values[i])) return i;
  return std::nullopt;
}

std::optional<size_t> counter_of(const StreamPlan& plan, const StreamStage& exchange) {
  int64_t bytes = 0;
  for (int32_t v : exchange.values) bytes += plan.bytes[static_cast<size_t>(v)];
  if (bytes <= word_payload * facts::stream_threads) return std::nullopt;
  return plan.slices.contains(exchange.values[0]) ? 0 : exchange.values.size() - 1;
}

TableWriter::TableWriter(const WholeMethod& method, const StreamPlan& plan) : m_(method), plan_(plan) {
  for (const Kernel& k : plan_.kernels) {
    table.first_trap.push_back(takes_trap(k) ? table.trap_count : -1);
    if (takes_trap(k)) table.trap_count += trap_count(k);
  }
  written_.resize(m_.uses.size());
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

// What of the units is the block's: the first element and the one behind the last.
void TableWriter::put_share(int64_t units, int64_t width) {
  assert(width < 8 && units < (words_from - share_from) / 8);
  table.rows.push_back(share_from + units * 8 + width);
}
void TableWriter::put_words(int32_t value) {
  const StreamExchange& e = plan_.exchanges.at(value);
  const int64_t width = unit_bytes(e) / part_bytes(e);
  assert(width < 8 && e.units < 1 << 26);
  table.rows.push_back(words_from + e.units * 16 + width * 2 + (part_bytes(e) == 4));
}
void TableWriter::put_slice(int32_t value) {
  const StreamExchange& e = plan_.exchanges.at(value);
  const facts::StreamAttention& a = *plan_.attentions[plan_.slices.at(value).attention];
  const std::array<int64_t, slice_numbers> slice{e.units, unit_bytes(e) / part_bytes(e), 12 / part_bytes(e),
                                                 a.axes.batch.size(), a.splits};
  int64_t at = 0;
  const auto end = static_cast<int64_t>(table.slices.size());
  while (at < end && !std::equal(slice.begin(), slice.end(), table.slices.begin() + at)) at += slice_numbers;
  if (at == end) table.slices.insert(table.slices.end(), slice.begin(), slice.end());
  table.rows.push_back(slices_from - at / slice_numbers);
}
void TableWriter::put_published(int32_t value) {
  const StreamExchange& e = plan_.exchanges.at(value);
  put(exchange_pointer(value));
  put_share(e.units, unit_bytes(e) / part_bytes(e));
  put_words(value);
}

// The memory through which a value is exchanged: room for the words of any number of blocks.
int TableWriter::exchange_pointer(int32_t value) {
  const auto [known, fresh] = exchange_of_.try_emplace(value, static_cast<int>(table.pointers.size()));
  if (!fresh) return known->second;
  const StreamExchange& e = plan_.exchanges.at(value);
  const int64_t each = 12 / static_cast<int64_t>(dtype_size(e.dtype));
  return own_pointer(256 + 16 * (e.units * e.width / each + 4 * plan_.device.units));
}

// How many blocks have done their part of an attention, roughly.
int TableWriter::counter(int attention) {
  const auto [known, fresh] = counters_.try_emplace(attention, static_cast<int>(table.pointers.size()));
  if (fresh) own_pointer(stream_alignment);
  return known->second;
}

void TableWriter::wait_for(int counter, bool some_late) {
  table.counters.push_back(table.pointers[static_cast<size_t>(counter)]);
  table.counters.push_back(some_late);
}

void TableWriter::ask_for(int pointer, const std::array<int64_t, 3>& shape, std::optional<int> other) {
  table.matrices.push_back(table.pointers[static_cast<size_t>(pointer)]);
  table.matrices.push_back(table.shapes.try_emplace(shape, static_cast<int>(table.shapes.size())).first->second);
  table.matrices.push_back(other ? table.pointers[static_cast<size_t>(*other)] : 0);
}

void TableWriter::ask_for_keys(size_t step) {
  const Kernel& k = plan_.kernels[step];
  const facts::StreamAttention& a = *plan_.attentions[step];
  const Access &keys = a.keys(k), &values = k.contraction->b;
  const KeyKind kind{.batches = a.axes.batch.size(),
                     .splits = a.splits,
                     .keys = a.axes.keys.size(),
                     .inspected_chunks = a.inspected_chunks,
                     .seen = a.inspected_chunks > 0 ? plan_.seen.at(step) : 0,
                     .key_offset = 2 * keys.offset,
                     .key_batch = 2 * *facts::batch_stride(keys, a.axes.batch),
                     .key_apart = plan_.ring->key_apart,
                     .value_offset = 2 * values.offset,
                     .value_batch = 2 * *facts::batch_stride(values, a.axes.batch),
                     .value_apart = plan_.ring->value_apart};
  const auto known = std::find(table.key_kinds.begin(), table.key_kinds.end(), kind);
  const int64_t number = known - table.key_kinds.begin();
  if (known == table.key_kinds.end()) table.key_kinds.push_back(kind);
  const auto pointer_to = [&](const Access& a) {
    return pointer(m_.steps[step].values[static_cast<size_t>(a.arg)], false);
  };
  const int first = pointer_to(keys);
  ask_for(first, {keys_of_kind, number, 0}, pointer_to(values));
}

void TableWriter::add(int text, std::span<const StreamStage> chain) {
  const size_t length = table.rows.size(), count = table.prefetched.size();
  table.rows.push_back(0);
  table.prefetched.push_back(0);
  row_ = length + 1, prefetched_here_ = 0;
  put_number(text | (chain[0].after_all ? stage_waits : 0));
  for (const StreamStage& stage : chain) {
    const Kernel& k = plan_.kernels[stage.step];
    for (size_t i = 0; i < k.args.size(); ++i)
      if (k.args[i].written) written_[static_cast<size_t>(m_.steps[stage.step].values[i])] = true;
    add(stage);
  }
  table.rows[length] = static_cast<int64_t>(table.rows.size() - length) - 1;
  table.longest_row = std::max(table.longest_row, table.rows[length]);
  table.prefetched[count] = static_cast<int64_t>(table.prefetched.size() - count) / 4;
  table.prefetched_bytes = std::max(table.prefetched_bytes, prefetched_here_);
  ++table.row_count;
}

void TableWriter::add(const StreamStage& stage) {
  const Kernel& k = plan_.kernels[stage.step];
  const std::vector<int32_t>& values = m_.steps[stage.step].values;
  put_number(std::max(table.first_trap[stage.step], 0));
  if (stage.kind == Kind::exchange) {
    if (const auto n = counter_of(plan_, stage)) wait_for(exchange_pointer(stage.values[*n]), true);
    for (int32_t v : stage.values) {
      put(exchange_pointer(v));
      put(pointer(v, false));
      if (plan_.slices.contains(v))
        put_slice(v);
      else
        put_words(v);
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
    prefetch(stage, i);
    put(pointer(values[i], x && !plan_.homes.contains(values[i])));
  }
  if (stage.kind == Kind::attention || stage.kind == Kind::merge) {
    put(partial_pointers_[merged_ % 2]);
    if (stage.kind == Kind::attention) table.rows.push_back(plan_.scratch.at(stage.step));
    put_number(merged_);
    const int parts = counter(merged_);
    if (stage.kind == Kind::attention) {
      put(parts);
      ask_for(parts, {0, stream_alignment, 0});
      if (plan_.attentions[stage.step]->ring) ask_for_keys(stage.step);
      if (plan_.attentions[stage.step]->inspected_chunks > 0) table.rows.push_back(plan_.seen.at(stage.step));
    } else {
      // For all: where most have no keys, the others would poll for the few all the time.
      wait_for(parts, false);
      const AttentionAxes& axes = plan_.attentions[stage.step]->axes;
      put_share(axes.batch.size() * axes.rows.size() * axes.columns.size() / facts::quad_columns, 1);
      ++merged_;
    }
  }
  if (stage.kind == Kind::product) {
    const int64_t lines = plan_.products[stage.step]->lines.size();
    put_share(lines % 2 ? lines : lines / 2, lines % 2 ? 1 : 2);
  }
  if (stage.kind == Kind::inspect || stage.inspected) table.rows.push_back(plan_.seen.at(stage.step));
  if (const auto made = published(m_, plan_, stage)) put_published(values[*made]);
  if (stage.kind == Kind::product || stage.kind == Kind::everywhere || stage.kind == Kind::spread)
    ask_for_small(stage.step);
  if (stage.kind != Kind::product) return;
  const facts::StreamProduct& p = *plan_.products[stage.step];
  ask_for(pointer(values[static_cast<size_t>(p.matrix)], false), {p.lines.size(), p.depth.size(), p.matrix_offset * 2});
}

// Small values that the method does not make, or not until then, are prefetched with the row into the block's memory,
// while the piece of text before runs: of a product's epilogue those of the block's lines.
void TableWriter::prefetch(const StreamStage& stage, size_t arg) {
  const bool product = stage.kind == Kind::product;
  const int number = static_cast<int>(arg);
  const Kernel& k = plan_.kernels[stage.step];
  const bool attends = stage.kind == Kind::attention || stage.kind == Kind::merge;
  const bool position = attends && k.args[arg].dtype == DType::i64 && k.args[arg].elements == 1;
  if (!product && !position && stage.kind != Kind::everywhere) return;
  const auto value = static_cast<size_t>(m_.steps[stage.step].values[arg]);
  if (m_.uses[value] == ValueUse::inside || written_[value]) return;
  if (product && (number == plan_.products[stage.step]->matrix || number == plan_.products[stage.step]->x)) return;
  const int64_t all = plan_.bytes[value], each = static_cast<int64_t>(dtype_size(k.args[arg].dtype));
  const bool by_line = product && facts::is_by_line(k, *plan_.products[stage.step], number);
  const int64_t lines = by_line ? plan_.products[stage.step]->lines.size() : 0;
  const int64_t bytes = by_line ? share_bytes(lines, each, plan_.device.units) : (all + 15) / 16 * 16;
  if (each < 2 || prefetched_here_ + bytes > most_prefetched) return;
  for (int64_t n : {static_cast<int64_t>(table.rows.size() - row_), prefetched_here_, by_line ? each : all, lines})
    table.prefetched.push_back(n);
  prefetched_here_ += bytes;
}

// What is known before the run and is no matrix is as good as never in the cache: all weights have been read since.
void TableWriter::ask_for_small(size_t step) {
  const Kernel& k = plan_.kernels[step];
  for (size_t i = 0; i < k.args.size(); ++i) {
    const int32_t v = m_.steps[step].values[i];
    const int64_t bytes = plan_.bytes[static_cast<size_t>(v)];
    if (m_.uses[static_cast<size_t>(v)] != ValueUse::known || bytes > most_small) continue;
    if (plan_.products[step] && static_cast<int>(i) == plan_.products[step]->matrix) continue;
    ask_for(pointer(v, false), {0, bytes, 0});
  }
}

}  // namespace npusim::cuda::codegen::stream
