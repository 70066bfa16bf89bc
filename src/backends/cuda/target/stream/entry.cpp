// Every block copies the tables, then one warp feeds and the others go through the pieces.
#include "backends/cuda/target/stream/entry.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/target/stream/text.h"

namespace npusim::cuda {

StreamLayout lay_out(const StreamTable& table, int64_t kept_bytes, int64_t scratch_bytes) {
  constexpr int64_t most_shared = 227 << 10, fewest_slots = 3, most_slots = 8;
  const int64_t pointers = aligned(static_cast<int64_t>(table.pointers.size()) * 8);
  const int64_t tables = aligned(static_cast<int64_t>(table.stages.size() + table.matrices.size()) * 2);
  StreamLayout l;
  l.others = kept_bytes + aligned(scratch_bytes) + pointers + tables + stream_alignment;
  l.slots = std::min((most_shared - l.others) / slot_bytes, most_slots);
  if (l.slots < fewest_slots) l.slots = 0;
  l.kept = l.slots * slot_bytes, l.at_scratch = l.kept + kept_bytes;
  l.at_pointers = l.at_scratch + aligned(scratch_bytes), l.at_tables = l.at_pointers + pointers;
  l.at_barriers = l.at_tables + tables, l.bytes = l.at_barriers + stream_alignment;
  return l;
}

StreamEntry print_entry(const StreamTable& table, const StreamLayout& layout, const std::string& cases) {
  StreamEntry entry;
  entry.parameter = "const __grid_constant__ Given given";
  const size_t count = table.values.size() + (table.trap_count > 0) + 1;
  std::vector<std::string> kept;
  for (int64_t p : table.pointers) kept.push_back(fmt::format("{}", p));
  entry.tables = fmt::format("\nstruct Given {{\n  void* at[{}];\n}};\n", count);
  entry.tables += fmt::format(
      "// Positions among what is given, as -1 - position, or in the block's memory.\n"
      "static __device__ const int pointers[{}] = {{{}}};\n",
      table.pointers.size(), fmt::join(kept, ", "));
  entry.tables += fmt::format("static __device__ const unsigned short tables[{}] = {{{}{}{}}};\n",
                              table.stages.size() + table.matrices.size(), fmt::join(table.stages, ", "),
                              table.matrices.empty() ? "" : ", ", fmt::join(table.matrices, ", "));
  Lines t;
  t.add("extern __shared__ uint4 memory[];");
  t.add("char* const own = (char*)memory;");
  t.add(fmt::format("char* const shared = (char*)given.at[{}];", count - 1));
  t.add(fmt::format("void** const where = (void**)(own + {});", layout.at_pointers));
  t.add(fmt::format("unsigned short* const table = (unsigned short*)(own + {});", layout.at_tables));
  t.add(fmt::format("unsigned long long* const full = (unsigned long long*)(own + {});", layout.at_barriers));
  t.add("const unsigned reciprocal = gridDim.x == 1 ? 0 : 0xffffffff / gridDim.x + 1;");
  t.add(fmt::format("Ring ring = {{own, full, full + {0}, {0}, 0, 0, reciprocal}};", layout.slots));
  t.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", table.pointers.size(), stream_block));
  t.add("const int at = pointers[i];");
  t.add(fmt::format("where[i] = at < 0 ? given.at[-1 - at] : (void*)(at < {0} ? own + {1} + at : shared + (at - {0}));",
                    own_from, layout.kept));
  t.close();
  t.add(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) table[i] = tables[i];",
                    table.stages.size() + table.matrices.size(), stream_block));
  t.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&full[threadIdx.x], threadIdx.x < {} ? 1 : {});",
                    2 * layout.slots, layout.slots, stream_warps));
  t.add(fmt::format("unsigned long long* const number = (unsigned long long*)(own + {});", layout.at_barriers + 128));
  t.add("if (threadIdx.x == 0) *number = count_seen((unsigned long long*)shared + 16) / gridDim.x + 1;");
  t.add("__syncthreads();");
  t.open(fmt::format("if (threadIdx.x >= {})", stream_threads));
  t.add("take_registers<40>();");
  t.add(fmt::format("if (threadIdx.x >= {}) return;", stream_threads + 32));
  t.add("Feeder feeder = {ring, 0, 0, 0};");
  t.add("#pragma unroll 1");
  t.open(fmt::format("for (int i = {}; i < {}; i += 2)", table.stages.size(),
                     table.stages.size() + table.matrices.size()));
  t.add("const char* matrix = (const char*)where[table[i]];");
  t.add("int lines = 0, depth = 0;");
  t.open("switch (table[i + 1])");
  for (const auto& [shape, id] : table.shapes)
    t.add(fmt::format("case {}: lines = {}, depth = {}, matrix += {}; break;", id, shape[0], shape[1], shape[2]));
  t.close();
  t.open("if (lines == 0)");
  t.add("for (int i = threadIdx.x % 32 * 128; i < depth; i += 32 * 128) bring_nearer(matrix + i);");
  t.add("continue;");
  t.close();
  t.add("feed(feeder, matrix, lines, depth);");
  t.close();
  t.add("return;");
  t.close();
  t.add("give_registers<232>();");
  if (table.trap_count > 0) t.add(fmt::format("int* const trap = (int*)given.at[{}];", table.values.size()));
  t.add("Meeting meeting = {(unsigned long long*)shared, 0};");
  t.add(fmt::format("char* const scratch = own + {};", layout.at_scratch));
  t.add("Turn turn = {*number, reciprocal};");
  t.add("int half = 0;");
  t.add("Words words = {};");
  t.add("#pragma unroll 1");
  t.open(fmt::format("for (const unsigned short* row = table; row < table + {};)", table.stages.size()));
  t.add("turn.reciprocal = ring.reciprocal = renewed(reciprocal);");
  t.add(fmt::format("if (row[0] & {}) meet_all(meeting);", stage_waits));
  t.open(fmt::format("switch (row[0] & {})", stage_waits - 1));
  t.text += cases;
  t.close();
  t.close();
  t.add("if (threadIdx.x == 0) count_in((unsigned long long*)shared + 16);");
  t.close();
  entry.body = std::move(t.text);
  return entry;
}

}  // namespace npusim::cuda
