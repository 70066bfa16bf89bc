// One stage: what it takes from its row of the table, and the call of its function.
#include <fmt/format.h>

#include "backends/cuda/codegen/stream/attention/attention.h"
#include "backends/cuda/codegen/stream/slices.h"
#include "backends/cuda/codegen/stream/text_printer.h"
#include "print/part.h"
#include "print/plan.h"

namespace npusim::cuda::codegen::stream {

// How many words a thread takes at most, however many blocks there are.
int64_t StreamPrinter::rounds_of(const StreamExchange& e) const {
  int64_t most = 0;
  for (int64_t blocks = 1; blocks <= plan_.device.units; ++blocks) {
    const int64_t units = (e.units + blocks - 1) / blocks;
    most = std::max(most, blocks * ((units * unit_bytes(e) + word_payload - 1) / word_payload));
  }
  return (most + facts::stream_threads - 1) / facts::stream_threads;
}

// The arguments of a stage from the table, from its entry 1 on.
std::string StreamPrinter::arguments(const StreamStage& stage) const {
  const Kernel& k = plan_.kernels[stage.step];
  std::vector<std::string> names;
  int entry = 1;
  for (size_t i = 0; i < k.args.size(); ++i) {
    const Term at = row(entry++);
    names.push_back(fmt::format("({}{}*){}", k.args[i].written ? "" : "const ", type(k.args[i].dtype),
                                plan_.homes.contains(m_.steps[stage.step].values[i]) ? in_block(at) : at));
  }
  if (takes_trap(k)) names.emplace_back("&raised");
  return fmt::format("{}", fmt::join(names, ", "));
}

// Of the row.
int StreamPrinter::entries_of(const StreamStage& stage) const {
  const int args = static_cast<int>(plan_.kernels[stage.step].args.size());
  const int made = published(stage) ? published_entries : 0;
  const int inspects = plan_.attentions[stage.step] && plan_.attentions[stage.step]->inspected_chunks > 0;
  switch (stage.kind) {
    case Kind::exchange:
      return 1 + 3 * static_cast<int>(stage.values.size());
    case Kind::gather:
      return 3;
    case Kind::product:
      return 2 + args + made;
    case Kind::attention:
      return 5 + args + inspects;
    case Kind::merge:
      return 4 + args + made;
    case Kind::inspect:
      return 2 + args;
    case Kind::ahead:
      return 1 + args + stage.inspected;
    case Kind::everywhere:
    case Kind::spread:
      return 1 + args;
  }
  return 0;
}

// What a product or a merge made, which is where its stage says, and where its words are.
void StreamPrinter::publish(const StreamStage& stage, size_t made, Lines& c, std::string& to_publish) {
  const StreamExchange& e = plan_.exchanges.at(m_.steps[stage.step].values[made]);
  Lines p;
  p.indent = c.indent;
  const int words = row_ - published_entries;
  const auto before = std::count(to_publish.begin(), to_publish.end(), ';');
  p.add(fmt::format("publish({}, {}{}, (char*)row[{}], epoch, {}, {}.x);", before * 32 % facts::stream_threads,
                    pointer_type(e), in_block(term("row[{}]", words - publish_back(stage) + static_cast<int>(made))),
                    words, numbers(words + 1), numbers(words + 2)));
  to_publish += p.text;
}

// Of the block, how many threads the stage needs, in whole warps, where others can have the rest at the same time:
// rows that every block computes for itself, and that do not meet.
int StreamPrinter::threads_of(const StreamStage& stage) const {
  if (stage.kind != Kind::everywhere) return facts::stream_threads;
  int64_t threads = threads_of_rows(plan_.kernels[stage.step], plan_.schedules[stage.step]);
  if (const StreamSlice* slice = slice_of_rows(stage)) threads /= plan_.attentions[slice->attention]->axes.batch.size();
  if (threads == 0 || threads > facts::stream_threads) return facts::stream_threads;
  return static_cast<int>((threads + 31) / 32 * 32);
}

// `first`: the thread where a stage of a few threads begins; -1: it has the block.
void StreamPrinter::print(const StreamStage& stage, Lines& c, int first) {
  const Kernel& k = plan_.kernels[stage.step];
  const bool moves = stage.kind == Kind::gather || stage.kind == Kind::exchange;
  const std::string name = moves ? "" : name_of(stage);
  int entries = 1 + static_cast<int>(k.args.size());
  const bool traps = !moves && stage.kind != Kind::attention && stage.kind != Kind::ahead &&
                     stage.kind != Kind::inspect && takes_trap(k);
  std::string condition;
  if (first >= 0) condition = fmt::format("threadIdx.x >= {} && threadIdx.x < {}", first, first + threads_of(stage));
  if (const StreamSlice* slice = slice_of_rows(stage))
    if (const Term key = owned(*slice); !key.empty())
      condition += fmt::format("{}{}", condition.empty() ? "" : " && ", key);
  c.open(condition.empty() ? "" : fmt::format("if ({})", condition));
  if (!moves && takes_trap(k)) c.add("int raised = 0;");
  switch (stage.kind) {
    case Kind::gather:
      entries = 3;
      c.add(
          fmt::format("copy_words<{}>((uint4*){}, (const uint4*){});", bytes_of(stage.values[0]) / 16, row(2), row(1)));
      break;
    case Kind::exchange:
      entries = 1 + 3 * static_cast<int>(stage.values.size());
      exchange(stage, c);
      break;
    case Kind::ahead:
      attention(stage, name);
      if (plan_.attentions[stage.step]->inspected_chunks == 0)
        c.add(fmt::format("{}_ahead({});", name, arguments(stage)));
      else
        c.add(fmt::format("{}_ahead({}, {});", name, stage.inspected ? in_block(row(entries)).text : "nullptr",
                          arguments(stage)));
      break;
    case Kind::inspect:
      attention(stage, name);
      c.add(fmt::format("{}_inspect({}, {});", name, in_block(row(entries++)).text, arguments(stage)));
      if (!plan_.awaited_inspections.contains(stage.step)) break;
      c.add("__syncwarp();");
      c.add("if (threadIdx.x % 32 == 0) mbarrier_arrive(inspected);");
      break;
    case Kind::attention: {
      const bool inspects = plan_.attentions[stage.step]->inspected_chunks > 0;
      attention(stage, name);
      if (uses_ring(stage) && !ring_begun_) begin_ring(stage, c, c);
      c.add(fmt::format("{}_parts({}epoch.number * {} + (int)(long long)row[{}], {}, (char*){}, {}{});", name,
                        uses_ring(stage) ? fmt::format("ring, many_{0}, masks_{0}, ", row_) : "", attention_count(),
                        row_ + entries + 2, in_block(row(entries + 1)), row(entries),
                        inspects ? in_block(row(entries + 4)).text + ", " : "", arguments(stage)));
      c.add(fmt::format("if (threadIdx.x == 0) count_hint((unsigned long long*){});", row(entries + 3)));
      if (const auto& ring = plan_.attentions[stage.step]->ring;
          ring && (ring->key_row.argument >= 0 || ring->value_row.argument >= 0))
        c.add(fmt::format("{}_keep({});", name, arguments(stage)));
      entries += inspects ? 5 : 4;
      break;
    }
    case Kind::merge:
      c.add("meet_block();");
      c.add("wait_for_most(counters);");
      c.add(fmt::format("{}_merge(epoch.number * {} + (int)(long long)row[{}], {}, (const char*){}, {});", name,
                        attention_count(), row_ + entries + 1, numbers(row_ + entries + 2), row(entries),
                        arguments(stage)));
      entries += 3;
      break;
    case Kind::product:
      break;
    case Kind::everywhere:
    case Kind::spread:
      part(stage, name, first, c);
      break;
  }
  if (traps) c.add(fmt::format("if (raised) *trap = (int)(long long)row[{}] + raised;", row_));
  c.close();
  row_ += entries_of(stage);
}

// Either way the block meets before its memory changes. Words of several values are split among threads as if they were
// of one: who waits for one value's does not wait for another's, too.
void StreamPrinter::exchange(const StreamStage& stage, Lines& c) {
  const auto entry = [&](size_t n) { return 1 + 3 * static_cast<int>(n); };
  const auto memory = [&](size_t n) { return row(entry(n)); };
  const auto is_sliced = [&](size_t n) { return plan_.slices.contains(stage.values[n]); };
  const auto all = [&](size_t n) {
    return is_sliced(n) ? term("words_{}", n) : term("{}.y", numbers(row_ + entry(n) + 2));
  };
  const auto words = [&](size_t n) {
    const Term from = term("(const char*){}", memory(n));
    return is_sliced(n) ? fmt::format("{:+} + {}.x", from, numbers(row_ + entry(n) + 2)) : from.text;
  };
  for (size_t n = 0; n < stage.values.size(); ++n) {
    c.add(fmt::format("Taken<{}> taken_{};", rounds_of(plan_.exchanges.at(stage.values[n])), n));
    if (!is_sliced(n)) continue;
    const Term some = term("{}.y", numbers(row_ + entry(n) + 2)), key = owned(plan_.slices.at(stage.values[n]));
    c.add(fmt::format("const int words_{} = {};", n, key.empty() ? some.text : fmt::format("{} ? {} : 0", key, some)));
  }
  std::vector<Term> from = {"0"};
  for (size_t n = 0; n + 1 < stage.values.size(); ++n) from.push_back(sum_of({from[n], all(n)}));
  const bool counts = counter_of(plan_, stage).has_value();
  if (counts) c.add("meet_block();"), c.add("wait_for_most(counters);");
  for (size_t n = 0; n < stage.values.size(); ++n)
    c.add(fmt::format("ask(taken_{}, {}, {}, {});", n, from[n].text, words(n), all(n)));
  c.text += std::exchange(overlapped_, "");
  if (!counts) c.add("meet_block();");
  for (size_t n = 0; n < stage.values.size(); ++n)
    c.add(fmt::format("take(taken_{}, {}, {}{}, {}, epoch, {});", n, from[n].text,
                      pointer_type(plan_.exchanges.at(stage.values[n])), in_block(row(entry(n) + 1)), words(n),
                      all(n)));
}

// Of rows that every block computes for itself, if it needs those of one batch alone.
const StreamSlice* StreamPrinter::slice_of_rows(const StreamStage& stage) const {
  const auto slice = plan_.row_slices.find(stage.step);
  return stage.kind == Kind::everywhere && slice != plan_.row_slices.end() ? &slice->second : nullptr;
}

// Batches, and splits of each.
std::string StreamPrinter::shares_of(const StreamSlice& slice) const {
  const facts::StreamAttention& a = *plan_.attentions[slice.attention];
  return fmt::format("{}, {}", a.axes.batch.size(), a.splits);
}

// Of rows of keys or values whether the block has the key that they are of; empty: all blocks want them.
Term StreamPrinter::owned(const StreamSlice& slice) const {
  if (!slice.rows) return {};
  const auto at = row_of_.find(*slice.rows);
  if (at == row_of_.end()) return {};
  return term("has_key(*(const long long*)row[{}], {}, {})", at->second + 1 + slice.position,
              plan_.attentions[slice.attention]->axes.keys.size(), shares_of(slice));
}

void StreamPrinter::attention(const StreamStage& stage, const std::string& name) {
  if (parts_.insert(name).second)
    functions_ +=
        stream::attention::print_attention(plan_.kernels[stage.step], *plan_.attentions[stage.step], d_, name);
}

// What is read while the chain's words are in flight: `declared` before, `begun` then.
void StreamPrinter::begin_ring(const StreamStage& stage, Lines& declared, Lines& begun) {
  const std::string name = name_of(stage);
  const int entries = 1 + static_cast<int>(plan_.kernels[stage.step].args.size());
  const bool inspects = plan_.attentions[stage.step]->inspected_chunks > 0;
  attention(stage, name);
  declared.add(fmt::format("bool many_{} = false;", row_));
  declared.add(fmt::format("float masks_{}[{}] = {{}};", row_, facts::ring_masks));
  begun.add(fmt::format("{0}_begin(many_{1}, masks_{1}, {2}{3});", name, row_,
                        inspects ? in_block(row(entries + 4)).text + ", " : "", arguments(stage)));
}

void StreamPrinter::part(const StreamStage& stage, const std::string& name, int first, Lines& c) {
  const Kernel& k = plan_.kernels[stage.step];
  const Schedule& schedule = plan_.schedules[stage.step];
  const PrintedPart part =
      print_part(k, d_, schedule, name + "_part", {std::vector<bool>(k.args.size(), false), 0, true, are_apart(stage)});
  if (parts_.insert(name).second) functions_ += part.function;
  std::string args = arguments(stage);
  int64_t at = 0;
  for (const SharedArray& array : part.shared) {
    args += fmt::format(", ({}*)(scratch + {})", array.type, at);
    at += (array.elements * 8 + 15) / 16 * 16;
  }
  scratch_ = std::max(scratch_, at);
  const Term thread = first > 0 ? term("threadIdx.x - {}", first) : "threadIdx.x";
  if (const StreamSlice* slice = slice_of_rows(stage)) {
    c.add(
        fmt::format("const uint2 range = threads_of_batch({}, {});", threads_of_rows(k, schedule), shares_of(*slice)));
    c.add("#pragma unroll 1");
    c.add(fmt::format("for (unsigned thread = range.x + {:+}; thread < range.y; thread += {})", thread,
                      first < 0 ? facts::stream_threads : threads_of(stage)));
    c.add(fmt::format("  {}_part({}, 0, thread);", name, args));
    return;
  }
  const bool everywhere = stage.kind == Kind::everywhere;
  const int64_t blocks = launch_of(k, d_, schedule).blocks;
  if (everywhere && blocks == 1) return c.add(fmt::format("{}_part({}, 0, {});", name, args, thread.text));
  c.open(fmt::format("for (unsigned block = {}; block < {}; block += {})", everywhere ? "0" : "blockIdx.x", blocks,
                     everywhere ? "1" : "gridDim.x"));
  c.add(fmt::format("{}_part({}, block, threadIdx.x);", name, args));
  if (!part.shared.empty()) c.add("meet_block();");
  c.close();
}

}  // namespace npusim::cuda::codegen::stream
