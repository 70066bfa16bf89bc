// Of four warps one feeds, one lists for it, one finds what the table names, a piece of text ahead, and one looks at
// counters; the others go through the pieces.
#include "backends/cuda/codegen/stream/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "backends/cuda/codegen/stream/text.h"

namespace npusim::cuda::codegen::stream {
namespace {

constexpr int64_t most_slots = 8;  // of the ring
constexpr int64_t rows_kept = 2;   // of the table: of the piece of text that runs and of the next
constexpr int64_t counters_kept = 2;

// Of a thread, once warps have taken their parts. What a block begins with, 168 for each of its threads, must do for
// all: warps that ask for more wait until others have given it.
constexpr int feeder_registers = 56, registers = 224;
static_assert((stream_block - facts::stream_threads) * feeder_registers + facts::stream_threads * registers <=
              stream_block * 168);

}  // namespace

StreamLayout lay_out(const StreamTable& table, int64_t kept_bytes, int64_t scratch_bytes) {
  constexpr int64_t most_shared = 227 << 10;
  constexpr int64_t barriers = 3 * most_slots + 1 + 2 * rows_kept + 2 * list_count + 2 * counters_kept + 1,
                    lists = list_count * list_length * 16;
  const auto words = [](int64_t bytes) { return (bytes + 15) / 16 * 16; };
  StreamLayout l;
  const int64_t rows = words(rows_kept * table.longest_row * 8), brought = words(rows_kept * table.brought_bytes),
                slices = words(static_cast<int64_t>(table.slices.size()) / slice_numbers * 8);
  l.others = kept_bytes + words(scratch_bytes) + rows + brought + slices + lists + words(barriers * 8);
  l.slots = std::min((most_shared - l.others) / facts::slot_bytes, most_slots);
  l.kept = l.slots * facts::slot_bytes, l.at_scratch = l.kept + kept_bytes;
  l.at_rows = l.at_scratch + words(scratch_bytes), l.at_brought = l.at_rows + rows;
  l.at_slices = l.at_brought + brought, l.at_lists = l.at_slices + slices, l.at_barriers = l.at_lists + lists;
  l.bytes = l.kept + l.others;
  return l;
}

StreamEntry print_entry(const StreamTable& table, const StreamLayout& layout, const StreamWay& way, size_t told,
                        const std::string& cases) {
  StreamEntry entry;
  entry.parameter = "const __grid_constant__ Given given";
  const size_t count = table.values.size() + (table.trap_count > 0) + 1;
  entry.tables = fmt::format("\nstruct Given {{\n  void* at[{}];\n}};\n", count);
  const auto numbers = [&](const char* name, const std::vector<int64_t>& all) {
    entry.tables += fmt::format("static __device__ const int {}[{}] = {{{}}};\n", name, std::max<size_t>(all.size(), 1),
                                fmt::join(all, ", "));
  };
  entry.tables += "// Places: numbers, positions among what is given, in the block's memory and in the launch's.\n";
  numbers("table_rows", table.rows), numbers("table_matrices", table.matrices);
  numbers("table_brought", table.brought), numbers("table_slices", table.slices);
  numbers("table_counters", table.counters);
  Lines t;
  t.add("extern __shared__ uint4 memory[];");
  t.add("char* const own = (char*)memory;");
  t.add(fmt::format("char* const shared = (char*)given.at[{}];", count - 1));
  t.add(fmt::format("unsigned long long* const rows = (unsigned long long*)(own + {});", layout.at_rows));
  t.add(fmt::format("unsigned long long* const full = (unsigned long long*)(own + {});", layout.at_barriers));
  t.add(
      fmt::format("unsigned long long *const number = full + {}, *const row_full = number + 1, *const row_empty = "
                  "row_full + {};",
                  3 * most_slots, rows_kept));
  t.add("const unsigned reciprocal = gridDim.x == 1 ? 0 : 0xffffffff / gridDim.x + 1;");
  t.add(fmt::format("Ring ring = {{own, full, full + {}, {}, 0, 0, reciprocal}};", 2 * layout.slots, layout.slots));
  t.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&full[threadIdx.x], threadIdx.x < {} ? 1 : {});",
                    3 * layout.slots, 2 * layout.slots, facts::stream_warps));
  t.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&row_full[threadIdx.x], threadIdx.x < {} ? 1 : {});",
                    2 * rows_kept, rows_kept, facts::stream_warps));
  t.add(
      fmt::format("if (threadIdx.x < {}) mbarrier_start(&row_empty[{} + threadIdx.x], 1);", 2 * list_count, rows_kept));
  t.add(fmt::format("unsigned long long* const counter_seen = row_empty + {};", rows_kept + 2 * list_count));
  t.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&counter_seen[threadIdx.x], threadIdx.x < {} ? 1 : {});",
                    2 * counters_kept, counters_kept, facts::stream_warps));
  t.add(fmt::format("Counters counters = {{counter_seen, counter_seen + {0}, {0}, 0, 0}};", counters_kept));
  if (told > 0) {
    t.add(fmt::format("unsigned long long* const looked = counter_seen + {};", 2 * counters_kept));
    t.add(fmt::format("if (threadIdx.x == 0) mbarrier_start(looked, {});", told * facts::stream_warps));
  }
  t.add("__syncthreads();");
  t.open(fmt::format("if (threadIdx.x >= {})", facts::stream_threads));
  t.add(fmt::format("take_registers<{}>();", feeder_registers));
  t.open(fmt::format("if (threadIdx.x >= {})", facts::stream_threads + 96));
  const size_t counters = table.counters.size() / 2;
  if (counters > 0) {
    t.add("if (!is_elected()) return;");
    t.add("const unsigned long long turn = launch_number(shared);");
    t.add("int place = table_counters[0], late = table_counters[1];  // of the next one");
    t.add("#pragma unroll 1");
    t.open(fmt::format("for (int n = 1; n <= {}; ++n)", counters));
    t.add(fmt::format("const char* const counter = shared + (place - {});", own_from));
    t.add(fmt::format("const unsigned some = {};",
                      way.late == 0 ? "0" : fmt::format("late ? gridDim.x / {} : 0", way.late)));
    t.add(fmt::format("if (n < {}) place = table_counters[2 * n], late = table_counters[2 * n + 1];", counters));
    t.add("look_at(counters, counter, turn, some);");
    t.close();
  }
  t.add("return;");
  t.close();
  t.add(fmt::format("Lists lists = {{(uint4*)(own + {}), row_empty + {}, row_empty + {}, 0, 0}};", layout.at_lists,
                    rows_kept, rows_kept + list_count));
  t.open(fmt::format("if (threadIdx.x < {})", facts::stream_threads + 32));
  t.add("if (is_elected()) feed(ring, lists);");
  t.add("return;");
  t.close();
  t.add("const int lane = threadIdx.x % 32;");
  t.open("const auto memory_at = [&](const int place)");
  t.add("if (place < 0) return (char*)given.at[-1 - place];");
  t.add(fmt::format("return place < {0} ? own + {1} + place : shared + (place - {0});", own_from, layout.kept));
  t.close(";");
  const size_t slices = table.slices.size() / slice_numbers;
  if (slices > 0)
    t.add(fmt::format("unsigned long long* const slices = (unsigned long long*)(own + {});", layout.at_slices));
  t.open("const auto found = [&](const int place)");
  if (slices > 0) t.add(fmt::format("if (place <= {0}) return slices[{0} - place];", slices_from));
  t.add(fmt::format("if (place <= {0}) return (unsigned long long)({0} - place);", plain_from));
  t.add(fmt::format(
      "if (place >= {0}) return words_of((place - {0}) / 16, place / 2 % 8, place % 2 ? 3 : 6, reciprocal);",
      words_from));
  t.add(fmt::format("if (place >= {0}) return share_of((place - {0}) / 8, place % 8, reciprocal);", share_from));
  t.add("return (unsigned long long)memory_at(place);");
  t.close(";");
  t.open(fmt::format("if (threadIdx.x >= {})", facts::stream_threads + 64));
  t.add("int slot = 0, i = 0, brought = 0;");
  t.add("unsigned phase = 0;");
  t.add("// Of the next row how many places it has, and of what comes with it: on their way while one is found.");
  t.add("int length = table_rows[0], count = table_brought[0];");
  t.add("#pragma unroll 1");
  t.open(fmt::format("for (int n = 0; n < {}; ++n)", table.row_count));
  t.add("const int places = length, values = count, *const numbers = table_brought + brought + 1 + 4 * lane;");
  t.add(fmt::format("unsigned long long* const row = rows + slot * {};", table.longest_row));
  t.add("const int first = i + 1;");
  t.add("i = first + places, brought += 1 + 4 * values;");
  t.add("mbarrier_wait(&row_empty[slot], phase ^ 1);");
  t.open("for (int k = lane; k < places; k += 32)");
  t.add("const int place = table_rows[first + k];  // of words: their memory is two places before");
  t.add("const unsigned long long value = row[k] = found(place);");
  if (way.nearer)
    t.add(fmt::format("if (place >= {}) bring_words(memory_at(table_rows[first + k - 2]), (int)value);", words_from));
  t.close();
  t.add(fmt::format("if (n + 1 < {}) length = table_rows[i], count = table_brought[brought];", table.row_count));
  t.add("__syncwarp();");
  t.add("const char* const from = lane < values ? memory_at(table_rows[first + numbers[0]]) : nullptr;");
  t.add(fmt::format("bring(own + {} + slot * {}, row, numbers, from, values, reciprocal);", layout.at_brought,
                    table.brought_bytes));
  t.add("__syncwarp();");
  t.add("if (lane == 0) mbarrier_arrive(&row_full[slot]);");
  t.add(fmt::format("advance(slot, phase, {});", rows_kept));
  if (slices > 0) {
    // The first piece of text exchanges nothing.
    assert(std::all_of(table.rows.begin() + 1, table.rows.begin() + 1 + table.rows[0],
                       [](int64_t place) { return place > slices_from; }));
    t.add("// The first row needs none, and must be there soon; those behind it need the same all the time.");
    t.open("if (n == 0)");
    t.add("#pragma unroll 1");
    t.add(fmt::format(
        "for (int k = lane; k < {}; k += 32) slices[k] = words_of_batch(table_slices + {} * k, reciprocal);", slices,
        slice_numbers));
    t.add("__syncwarp();");
    t.close();
  }
  t.close();
  t.add("return;");
  t.close();
  t.add("// A lane each has of the next ones, what of them is the block's; those behind them are on their way.");
  const size_t matrices = table.matrices.size() / 3;
  t.add("int place = 0, shape = 0, other = 0;");
  t.add("bool behind_keys = false;");
  const std::string ask =
      "place = table_matrices[3 * {0}], shape = table_matrices[3 * {0} + 1], other = table_matrices[3 * {0} + 2];";
  t.add(fmt::format("if (lane < {}) ", matrices) + fmt::format(fmt::runtime(ask), "lane"));
  t.add("#pragma unroll 1");
  t.open(fmt::format("for (int first = 0; first < {}; first += 32)", matrices));
  t.add("const char* mine = memory_at(place);");
  t.add("int lines = 0, depth = 0;");
  t.open("switch (shape)");
  for (const auto& [shape, id] : table.shapes)
    t.add(fmt::format("case {}: lines = {}, depth = {}, mine += {}; break;", id, shape[0], shape[1], shape[2]));
  t.close();
  t.open("if (lines > 0)");
  t.add("const int line = first_line(lines, blockIdx.x, reciprocal);");
  t.add("lines = first_line(lines, blockIdx.x + 1, reciprocal) - line, mine += 2 * (long long)line * depth;");
  t.close();
  t.add("else if (lines == 0) lines = -1;");
  if (!table.key_kinds.empty()) t.add("const char* const values = memory_at(other);");
  t.add("const int then = first + 32 + lane;");
  t.add(fmt::format("if (then < {}) ", matrices) + fmt::format(fmt::runtime(ask), "then"));
  t.add("#pragma unroll 1");
  t.open(fmt::format("for (int n = 0; n < min(32, {} - first); ++n)", matrices));
  t.add("const char* const matrix = (const char*)__shfl_sync(0xffffffffu, (unsigned long long)mine, n);");
  t.add("const int some = __shfl_sync(0xffffffffu, lines, n), elements = __shfl_sync(0xffffffffu, depth, n);");
  t.add("if (some >= 0)");
  t.add("  list_pieces(lists, matrix, some, elements, behind_keys);");
  t.add("else if (some == -1)");
  t.add("  for (int i = lane * 128; i < elements; i += 32 * 128) bring_nearer(matrix + i);");
  for (size_t kind = 0; kind < table.key_kinds.size(); ++kind) {
    const KeyKind& k = table.key_kinds[kind];
    t.open(fmt::format("else if (elements == {})", kind));
    if (k.looks > 0) t.add("mbarrier_wait(looked, 0);");
    t.add(fmt::format("const Keys these = {{{}, {}, {}, {}, {}}};",
                      k.looks > 0 ? fmt::format("own + {}", layout.kept + k.seen) : "nullptr", k.looks, k.batches,
                      k.splits, k.keys));
    t.add(fmt::format("const KeyPlaces places = {{{}LL, {}, {}LL, {}}};", k.key_batch, k.key_apart, k.value_batch,
                      k.value_apart));
    t.add("const char* const beside = (const char*)__shfl_sync(0xffffffffu, (unsigned long long)values, n);");
    t.add(fmt::format("list_keys(lists, these, places, matrix + {}, beside + {});", k.key_offset, k.value_offset));
    t.add("behind_keys = true;");
    t.close();
  }
  t.close();
  t.close();
  t.add("end_lists(lists);");
  t.add("return;");
  t.close();
  t.add(fmt::format("give_registers<{}>();", registers));
  if (table.trap_count > 0) t.add(fmt::format("int* const trap = (int*)given.at[{}];", table.values.size()));
  t.add("Meeting meeting = {(unsigned long long*)shared, 0};");
  t.add(fmt::format("char* const scratch = own + {};", layout.at_scratch));
  t.add("if (threadIdx.x == 0) *number = launch_number(shared);");
  t.add("meet_block();");
  t.add("const Turn turn = {*number};");
  t.add("int half = 0;");
  t.add("Words words = {};");
  t.add("#pragma unroll 1");
  t.open(fmt::format("for (int n = 0; n < {}; ++n)", table.row_count));
  t.add(fmt::format("const int slot = n % {};", rows_kept));
  t.add(fmt::format("mbarrier_wait(&row_full[slot], n / {} % 2);", rows_kept));
  t.add(fmt::format("void** const row = (void**)rows + slot * {};", table.longest_row));
  t.add("const int text = (int)(long long)row[0];");
  t.add(fmt::format("if (text & {}) meet_all(meeting);", stage_waits));
  t.open(fmt::format("switch (text & {})", stage_waits - 1));
  t.text += cases;
  t.close();
  t.add("__syncwarp();");
  t.add("if (threadIdx.x % 32 == 0) mbarrier_arrive(&row_empty[slot]);");
  t.close();
  t.add("if (threadIdx.x == 0) count_in((unsigned long long*)shared + 16);");
  t.close();
  entry.body = std::move(t.text);
  return entry;
}

}  // namespace npusim::cuda::codegen::stream
