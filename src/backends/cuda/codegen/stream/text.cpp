// Stages of equal content are one function; what differs between them is a row of the table.
#include "backends/cuda/codegen/stream/text.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/codegen/device/texts.h"
#include "backends/cuda/codegen/stream/entry.h"
#include "backends/cuda/codegen/stream/meetings.h"
#include "backends/cuda/codegen/stream/text_printer.h"
#include "base/hash.h"

namespace npusim::cuda::codegen::stream {

std::optional<StreamText> StreamPrinter::run(std::string& why) {
  for (size_t i = 0, end = 0; i < plan_.stages.size(); i = end) {
    for (end = i + 1; end < plan_.stages.size() && !begins(plan_.stages[end]);) ++end;
    add({plan_.stages.begin() + static_cast<ptrdiff_t>(i), plan_.stages.begin() + static_cast<ptrdiff_t>(end)});
  }
  if (kinds_.size() >= stage_waits || table_.trap_count >= 1 << 16) {
    why = "a table of too many entries";
    return std::nullopt;
  }
  if (own_from + table_.own_bytes > share_from) {
    why = fmt::format("{} bytes of the launch's own", table_.own_bytes);
    return std::nullopt;
  }
  if (table_.values.size() + 2 > static_cast<size_t>(cuda_dialect.max_args)) {
    why = fmt::format("{} values, {} take part in a launch", table_.values.size(), cuda_dialect.max_args);
    return std::nullopt;
  }
  const StreamLayout layout = lay_out(table_, plan_.kept_bytes, scratch_, plan_.device.block_bytes);
  if (layout.slots < std::max(fewest_slots, plan_.ring ? facts::round_pieces(*plan_.ring) : 0)) {
    why = fmt::format("{} bytes of a block's memory besides the ring", layout.others);
    return std::nullopt;
  }
  StreamText out;
  const StreamEntry entry = print_entry(table_, layout, candidate_, plan_.awaited_inspections.size(), cases_);
  out.symbol = "stream_" + hash_hex(constants() + functions_ + entry.tables + entry.body);
  out.functions =
      fmt::format("{}{}\n{}\n", constants(), device::stream_machine(), device::stream_producer()) + functions_ +
      entry.tables +
      fmt::format(fmt::runtime(cuda_dialect.kernel), out.symbol, entry.parameter, fmt::format("{}, 1", stream_block)) +
      entry.body;
  out.values = table_.values, out.first_trap = table_.first_trap;
  out.shared_bytes = layout.bytes, out.own_bytes = table_.own_bytes;
  const auto count = [&](Kind kind) {
    return std::count_if(plan_.stages.begin(), plan_.stages.end(),
                         [&](const StreamStage& s) { return s.kind == kind; });
  };
  const auto meetings = std::count_if(plan_.stages.begin(), plan_.stages.end(), [](auto& s) { return s.after_all; });
  out.how = fmt::format(
      "one stream: {} stages of {} kinds, {} products, {} attentions, {} exchanges, {} gathers, {} everywhere, {} "
      "spread; {} "
      "meetings, {} slots of {} bytes; {}",
      plan_.stages.size(), kinds_.size(), count(Kind::product), count(Kind::attention), count(Kind::exchange),
      count(Kind::gather), count(Kind::everywhere), count(Kind::spread), meetings, layout.slots, facts::slot_bytes,
      to_string(candidate_));
  return out;
}

// No value that the stage reads is one that it writes.
bool StreamPrinter::are_apart(const StreamStage& stage) const {
  const Kernel& k = plan_.kernels[stage.step];
  const std::vector<int32_t>& values = m_.steps[stage.step].values;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (values[i] == values[j] && (k.args[i].written || k.args[j].written)) return false;
  return true;
}

// The chain's text, which is of all chains that have the same, and its row of the table.
void StreamPrinter::add(std::span<const StreamStage> chain) {
  const std::string text = print(chain);
  const auto [known, fresh] = kinds_.try_emplace(text, static_cast<int>(kinds_.size()));
  if (fresh) cases_ += fmt::format("      case {}: {{\n{}      }}\n", known->second, text);
  rows_.add(known->second, chain);
}

std::string StreamPrinter::print(std::span<const StreamStage> chain) {
  const std::vector<char> meets = stream_meetings(m_, plan_, chain);
  Lines c;
  c.indent = 4;
  numbers_.clear();
  row_ = 1;
  row_of_.clear();
  for (int at = 1; const StreamStage& stage : chain) {
    if (stage.kind == Kind::everywhere) row_of_[stage.step] = at;
    at += entries_of(stage);
  }
  std::string to_publish;  // behind the next meeting
  const bool through_ring = std::any_of(chain.begin(), chain.end(), [&](const StreamStage& s) { return uses_ring(s); });
  ring_begun_ = std::none_of(chain.begin(), chain.end(), [](const StreamStage& s) { return s.kind == Kind::inspect; });
  Lines begun;
  begun.indent = 5;
  for (const StreamStage& stage : chain) {
    if (ring_begun_ && uses_ring(stage)) begin_ring(stage, c, begun);
    row_ += entries_of(stage);
  }
  if (chain[0].kind == Kind::exchange)
    overlapped_ = begun.text;
  else
    c.text += begun.text;
  row_ = 1;
  // Pieces are taken in the order of stages.
  if (const auto run = first_products(chain, meets); !run.empty() && chain[0].kind == Kind::exchange && !through_ring) {
    c.add(fmt::format("{}_begin(ring, words, {});", products(run), lines_of(chain, run).text));
    begun_ = true;
  }
  for (size_t n = 0, end = 0; n < chain.size(); n = end) {
    if (meets[n] || (!to_publish.empty() && chain[n].kind != Kind::product))
      c.add("meet_block();"), c.text += std::exchange(to_publish, "");
    end = n + 1;
    if (chain[n].kind == Kind::product) {
      const auto run = first_products(chain.subspan(n), std::span(meets).subspan(n));
      end = n + run.size();
      print_products(run, c, to_publish);
      continue;
    }
    int threads = threads_of(chain[n]);
    while (end < chain.size() && !meets[end] && threads + threads_of(chain[end]) <= facts::stream_threads)
      threads += threads_of(chain[end++]);
    int first = 0;
    for (size_t i = n; i < end; ++i) {
      print(chain[i], c, end - n == 1 ? -1 : first);
      first += threads_of(chain[i]);
    }
    if (const auto made = published(chain[n])) publish(chain[n], *made, c, to_publish);
  }
  if (!to_publish.empty()) c.add("meet_block();"), c.text += to_publish;
  c.add("break;");
  std::string declared;
  for (int at : numbers_) declared += fmt::format("        const uint2 numbers_{0} = ((const uint2*)row)[{0}];\n", at);
  return declared + c.text;
}

std::string StreamPrinter::constants() const {
  const facts::RingLayout ring = plan_.ring.value_or(facts::RingLayout{});
  return fmt::format(
      "\nenum {{ slot_depth = {}, slot_bytes = {}, requests_at_once = {}, request_gap = {}, gap_behind_keys = {}, "
      "list_length = {}, "
      "list_count = {}, most_blocks = {}, weights_read_once = {:d} }};\n"
      "enum {{ chunk_keys = {}, key_bytes = {}, key_apart = {}, value_bytes = {}, value_apart = {}, value_pad = {}, "
      "half_keys = {}, piece_halves = {}, round_pieces = {} }};\n",
      facts::slot_depth, facts::slot_bytes, candidate_.requests, candidate_.gap, candidate_.gap_behind_keys,
      list_length, list_count, plan_.device.units, candidate_.once, facts::StreamAttention::chunk, ring.key_bytes,
      ring.key_apart, ring.value_bytes, ring.value_apart, facts::StreamAttention::row_pad,
      facts::StreamAttention::own_keys, facts::piece_halves(ring), facts::round_pieces(ring));
}

std::optional<StreamText> print_stream(const WholeMethod& method, const StreamPlan& plan,
                                       const StreamCandidate& candidate, std::string& why) {
  return StreamPrinter(method, plan, candidate).run(why);
}

}  // namespace npusim::cuda::codegen::stream
