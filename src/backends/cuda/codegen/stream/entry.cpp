// What a method's launch is printed of: the numbers and tables that device/entry.cuh is written for, and the loop over
// the pieces of text.
#include "backends/cuda/codegen/stream/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "backends/cuda/codegen/device/texts.h"
#include "backends/cuda/codegen/stream/text.h"

namespace npusim::cuda::codegen::stream {
namespace {

constexpr int64_t most_slots = 8;  // of the ring
constexpr int64_t rows_kept = 2;   // of the table: of the piece of text that runs and of the next
constexpr int64_t counters_kept = 2;

// Of a thread, once warps have taken their parts. What a block begins with, 168 for each of its threads, must do for
// all: warps that ask for more wait until others have given it.
constexpr int producer_registers = 56, registers = 224;
static_assert((stream_block - facts::stream_threads) * producer_registers + facts::stream_threads * registers <=
              stream_block * 168);

// What device/entry.cuh is written for: numbers, and the table.
std::string numbers(const StreamTable& table, const StreamLayout& layout, const StreamCandidate& candidate,
                    size_t awaited_inspections) {
  const auto slices = static_cast<int64_t>(table.slices.size()) / slice_numbers;
  // The first piece of text exchanges nothing.
  assert(slices == 0 || std::all_of(table.rows.begin() + 1, table.rows.begin() + 1 + table.rows[0],
                                    [](int64_t location) { return location > slices_from; }));
  const std::pair<const char*, int64_t> all[] = {
      {"stream_threads", facts::stream_threads},
      {"stream_warps", facts::stream_warps},
      {"producer_registers", producer_registers},
      {"registers", registers},
      {"given_count", static_cast<int64_t>(table.values.size()) + (table.trap_count > 0) + 1},
      {"slots", layout.slots},
      {"most_slots", most_slots},
      {"rows_kept", rows_kept},
      {"counters_kept", counters_kept},
      {"awaited_inspections", static_cast<int64_t>(awaited_inspections)},
      {"at_kept", layout.kept},
      {"at_scratch", layout.at_scratch},
      {"at_rows", layout.at_rows},
      {"at_prefetched", layout.at_prefetched},
      {"at_slices", layout.at_slices},
      {"at_lists", layout.at_lists},
      {"at_barriers", layout.at_barriers},
      {"own_from", own_from},
      {"plain_from", plain_from},
      {"share_from", share_from},
      {"words_from", words_from},
      {"slices_from", slices_from},
      {"row_count", table.row_count},
      {"longest_row", table.longest_row},
      {"prefetched_bytes", table.prefetched_bytes},
      {"matrix_count", static_cast<int64_t>(table.matrices.size()) / 3},
      {"counter_count", static_cast<int64_t>(table.counters.size()) / 2},
      {"slice_count", slices},
      {"slice_numbers", slice_numbers},
      {"late_one_in", candidate.late},
      {"words_prefetched", candidate.prefetch},
      {"lists_attentions", !table.key_kinds.empty()},
  };
  std::string text = "\nenum {\n";
  for (const auto& [name, value] : all) text += fmt::format("  {} = {},\n", name, value);
  text += "};\n// Locations: numbers, positions among what is given, in the block's memory and in the launch's.\n";
  const auto array = [&](const char* name, const std::vector<int64_t>& values) {
    text += fmt::format("static __device__ const int {}[{}] = {{{}}};\n", name, std::max<size_t>(values.size(), 2),
                        fmt::join(values, ", "));
  };
  array("table_rows", table.rows), array("table_matrices", table.matrices), array("table_prefetched", table.prefetched);
  array("table_slices", table.slices), array("table_counters", table.counters);
  return text;
}

std::string shapes(const StreamTable& table) {
  Lines t;
  t.indent = 0;
  t.open("\n__device__ __forceinline__ void take_shape(int shape, int& lines, int& depth, const char*& matrix)");
  t.open("switch (shape)");
  for (const auto& [shape, id] : table.shapes)
    t.add(fmt::format("case {}: lines = {}, depth = {}, matrix += {}; break;", id, shape[0], shape[1], shape[2]));
  t.close();
  t.close();
  return t.text;
}

std::string key_kinds(const StreamTable& table, const StreamLayout& layout) {
  Lines t;
  t.indent = 0;
  t.open(
      "__device__ __forceinline__ void list_kind(const Block& block, Lists& lists, int kind, const char* keys, "
      "const char* values)");
  for (size_t kind = 0; kind < table.key_kinds.size(); ++kind) {
    const KeyKind& k = table.key_kinds[kind];
    t.open(fmt::format("if (kind == {})", kind));
    if (k.inspected_chunks > 0) t.add("mbarrier_wait(block.inspected, 0);");
    t.add(fmt::format("const Keys these = {{{}, {}, {}, {}, {}}};",
                      k.inspected_chunks > 0 ? fmt::format("block.own + {}", layout.kept + k.seen) : "nullptr",
                      k.inspected_chunks, k.batches, k.splits, k.keys));
    t.add(fmt::format("const KeyStrides strides = {{{}LL, {}, {}LL, {}}};", k.key_batch, k.key_apart, k.value_batch,
                      k.value_apart));
    t.add(
        fmt::format("return list_keys(lists, these, strides, keys + {}, values + {});", k.key_offset, k.value_offset));
    t.close();
  }
  t.close();
  return t.text;
}

}  // namespace

StreamLayout lay_out(const StreamTable& table, int64_t kept_bytes, int64_t scratch_bytes, int64_t block_bytes) {
  constexpr int64_t barriers = 3 * most_slots + 1 + 2 * rows_kept + 2 * list_count + 2 * counters_kept + 1,
                    lists = list_count * list_length * 16;
  const auto words = [](int64_t bytes) { return (bytes + 15) / 16 * 16; };
  StreamLayout l;
  const int64_t rows = words(rows_kept * table.longest_row * 8), prefetched = words(rows_kept * table.prefetched_bytes),
                slices = words(static_cast<int64_t>(table.slices.size()) / slice_numbers * 8);
  l.others = kept_bytes + words(scratch_bytes) + rows + prefetched + slices + lists + words(barriers * 8);
  l.slots = std::min((block_bytes - l.others) / facts::slot_bytes, most_slots);
  l.kept = l.slots * facts::slot_bytes, l.at_scratch = l.kept + kept_bytes;
  l.at_rows = l.at_scratch + words(scratch_bytes), l.at_prefetched = l.at_rows + rows;
  l.at_slices = l.at_prefetched + prefetched, l.at_lists = l.at_slices + slices, l.at_barriers = l.at_lists + lists;
  l.bytes = l.kept + l.others;
  return l;
}

StreamEntry print_entry(const StreamTable& table, const StreamLayout& layout, const StreamCandidate& candidate,
                        size_t awaited_inspections, const std::string& cases) {
  StreamEntry entry;
  entry.parameter = "const __grid_constant__ Given given";
  entry.tables = numbers(table, layout, candidate, awaited_inspections) + fmt::format("{}\n", device::stream_entry()) +
                 shapes(table) + key_kinds(table, layout);
  Lines t;
  t.add("extern __shared__ uint4 memory[];");
  t.add("const Block block = begin_block(given, memory);");
  t.add("if (threadIdx.x >= stream_threads) return serve(block);");
  t.add("give_registers<registers>();");
  t.add("char *const own = block.own, *const shared = block.shared, *const scratch = own + at_scratch;");
  if (awaited_inspections > 0) t.add("unsigned long long* const inspected = block.inspected;");
  if (table.trap_count > 0) t.add(fmt::format("int* const trap = (int*)given.at[{}];", table.values.size()));
  t.add("Ring ring = ring_of(block);");
  t.add("Counters counters = counters_of(block);");
  t.add("Meeting meeting = {(unsigned long long*)shared, 0};");
  t.add("if (threadIdx.x == 0) *block.number = launch_number(shared);");
  t.add("meet_block();");
  t.add("const Epoch epoch = {*block.number};");
  t.add("int half = 0;");
  t.add("Words words = {};");
  t.add("#pragma unroll 1");
  t.open("for (int n = 0; n < row_count; ++n)");
  t.add("const int slot = n % rows_kept;");
  t.add("mbarrier_wait(&block.row_full[slot], n / rows_kept % 2);");
  t.add("void** const row = (void**)block.rows + slot * longest_row;");
  t.add("const int text = (int)(long long)row[0];");
  t.add(fmt::format("if (text & {}) meet_all(meeting);", stage_waits));
  t.open(fmt::format("switch (text & {})", stage_waits - 1));
  t.text += cases;
  t.close();
  t.add("__syncwarp();");
  t.add("if (threadIdx.x % 32 == 0) mbarrier_arrive(&block.row_empty[slot]);");
  t.close();
  t.add("if (threadIdx.x == 0) count_in((unsigned long long*)shared + 16);");
  t.close();
  entry.body = std::move(t.text);
  return entry;
}

}  // namespace npusim::cuda::codegen::stream
