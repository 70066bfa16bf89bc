// Tiles of eight lines: each warp multiplies its share of the depth, and the sums meet in the block's memory.
#include "backends/cuda/codegen/stream/product_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/cuda/codegen/stream/plan.h"
#include "backends/cuda/codegen/text.h"
#include "print/point.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream {
namespace {

// Floats of a lot of tiles: as many for all products, so that one that begins while another's sums are read leaves
// those alone.
constexpr int64_t most_tile_rows = 12, lot_floats = most_tile_rows * facts::tile_lines * facts::stream_warps;

// Of several products, whole warps take the results of a tile, so that they do not wait for each other's.
int64_t tile_threads(int64_t rows, bool several) {
  return several ? (rows * facts::tile_lines + 31) / 32 * 32 : rows * facts::tile_lines;
}
int64_t tiles_at_once(int64_t rows, bool several) {
  return std::max<int64_t>(1, std::min(most_tile_rows / rows, facts::stream_threads / tile_threads(rows, several)));
}
int64_t tile_floats(int64_t rows) { return facts::stream_warps * rows * facts::tile_lines; }

std::string joined_names(std::span<const NamedProduct> run) {
  std::string all;
  for (const NamedProduct& each : run) all += (all.empty() ? "" : " ") + each.name;
  return all;
}

// The names of a kernel's arguments where there are several kernels.
std::vector<std::string> names_of(const Kernel& k, const std::string& suffix) {
  std::vector<std::string> names;
  int reads = 0, writes = 0;
  for (const KernelArg& arg : k.args)
    names.push_back(arg.written ? fmt::format("out{}{}", writes++, suffix) : fmt::format("in{}{}", reads++, suffix));
  if (takes_trap(k)) names.emplace_back("trap");
  return names;
}

}  // namespace

int64_t product_scratch() { return 2 * lot_floats * 4; }

std::string print_products(std::span<const NamedProduct> run, const std::string& name) {
  const facts::StreamProduct& one = *run[0].product;
  const int64_t rows = one.rows.size(), depth = one.depth.size(), tiles = tiles_at_once(rows, run.size() > 1);
  const int64_t tile = tile_floats(rows), least = (depth - 1) % facts::slot_depth + 1;  // elements of a line in a piece
  std::vector<std::string> given;
  for (size_t n = 0; n < run.size(); ++n)
    given.push_back(parameters(*run[n].kernel, stream_dialect(), fmt::format("_{}", n)) +
                    fmt::format(",\n    const uint2 mine_{}", n));
  const Term x = names_of(*run[0].kernel, "_0")[static_cast<size_t>(one.x)];
  Lines t;
  t.indent = 0;
  t.text = "\n// Lines of " + std::to_string(depth) + " times " + std::to_string(rows) + " rows: " + joined_names(run) +
           "\n";
  t.open(fmt::format("{} void {}_begin(Ring& ring, Words& words, const int lines)", stream_dialect().function, name));
  t.add(fmt::format("if (lines > 0) take_piece<{}>(ring, words, {});", least, std::min(depth, facts::slot_depth)));
  t.close();
  t.open(
      fmt::format("{} void {}_stream(\n    Ring& ring, Words& words, char* own, float* scratch, int& "
                  "half,\n    {})",
                  stream_dialect().function, name, fmt::join(given, ",\n    ")));
  for (size_t n = 0; n < run.size(); ++n) {
    t.add(fmt::format("const int first_{0} = mine_{0}.x, end_{0} = mine_{0}.y;", n));
    t.add(fmt::format("const int tiles_{0} = {1}(end_{0} - first_{0} + {2}) / {3};", n,
                      n == 0 ? "" : fmt::format("tiles_{} + ", n - 1), facts::tile_lines - 1, facts::tile_lines));
  }
  const std::string count = fmt::format("tiles_{}", run.size() - 1);
  t.add("// In the block's memory, as the compiler would not know.");
  t.add(fmt::format("const char* const x = own + (int)((const char*)({:+} + {}) - own);", x, one.x_offset));
  if (depth <= facts::slot_depth) {
    t.add(fmt::format("Rows<{}> b;", rows));
    t.add(fmt::format("take_rows<{}, {}, {}>(b, x, {});", rows, depth, least, depth));
  }
  t.open(fmt::format("for (int from = 0; from < {}; from += {})", count, tiles));
  t.add(fmt::format("float* const parts = scratch + half * {};", lot_floats));
  t.open(fmt::format("for (int tile = 0; tile < min({}, {} - from); ++tile)", tiles, count));
  t.add(fmt::format("float sums[{}][2][4] = {{}};", (rows + 1) / 2));
  const std::string multiply = fmt::format("multiply_piece<{}, {}>(words, b, sums);", rows, one.dtype == DType::f16);
  const std::string next = fmt::format("if (from + tile + 1 < {}) take_piece<{}>(ring, words, {});", count, least,
                                       std::min(depth, facts::slot_depth));
  if (depth <= facts::slot_depth) {
    t.add(multiply);
    t.add(next);
  } else {
    t.add("#pragma unroll 1");
    t.open(fmt::format("for (int k = 0; k < {}; k += {})", depth, facts::slot_depth));
    t.add(fmt::format("Rows<{}> b;", rows));
    t.add(fmt::format("take_rows<{}, {}, {}>(b, x + k * 2, min({}, {} - k));", rows, depth, least, facts::slot_depth,
                      depth));
    t.add(multiply);
    t.add(fmt::format("if (k + {0} < {1}) take_piece<{2}>(ring, words, min({0}, {1} - {0} - k));", facts::slot_depth,
                      depth, least));
    t.add("else " + next);
    t.close();
  }
  t.add(fmt::format("leave_sums<{}>(parts + tile * {}, sums);", rows, tile));
  t.close();
  t.add("meet_block();");
  const int64_t threads = tile_threads(rows, run.size() > 1);
  t.add(fmt::format("const int tile = threadIdx.x / {0}, at = threadIdx.x % {0};", threads));
  t.open(fmt::format("if (tile < min({}, {} - from){})", tiles, count,
                     threads == rows * facts::tile_lines ? "" : fmt::format(" && at < {}", rows * facts::tile_lines)));
  t.add(fmt::format("const float sum = take_sums<{}>(parts + tile * {}, at);", rows, tile));
  for (size_t n = 0; n < run.size(); ++n) {
    t.open(n + 1 == run.size() ? std::string(n > 0 ? "else" : "")
                               : fmt::format("{}if (from + tile < tiles_{})", n > 0 ? "else " : "", n));
    t.add(fmt::format("const int line = first_{} + (from + tile{}) * {} + at % {};", n,
                      n == 0 ? "" : fmt::format(" - tiles_{}", n - 1), facts::tile_lines, facts::tile_lines));
    t.add(fmt::format("if (line < end_{}) {}_at({}, at / {}, line, &sum);", n, run[n].name,
                      fmt::join(names_of(*run[n].kernel, fmt::format("_{}", n)), ", "), facts::tile_lines));
    t.close();
  }
  t.close();
  t.add("half ^= 1;");
  t.close();
  t.close();
  return std::move(t.text);
}

}  // namespace npusim::cuda::codegen::stream
