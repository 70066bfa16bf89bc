// The tiles there are, and which of them is estimated to be the fastest.
#include <algorithm>

#include "backends/cuda/target/text.h"
#include "backends/cuda/target/tile.h"

namespace npusim::cuda {
namespace {

constexpr TileShape shapes[] = {
    {128, 256, 8, 1, 4, true}, {128, 128, 8, 1, 3, true}, {128, 64, 8, 1, 4, true}, {64, 128, 4, 1, 4, true},
    {64, 64, 4, 1, 4, true},   {128, 128, 2, 4, 3},       {128, 64, 2, 2, 3},       {64, 128, 2, 2, 3},
    {64, 64, 2, 2, 4},         {64, 32, 2, 2, 4},         {32, 64, 2, 2, 4},        {32, 32, 2, 2, 4},
    {16, 64, 1, 4, 4},
};

int64_t stage_bytes(const TileShape& s) { return int64_t{2} * (s.rows + s.columns) * tile_depth; }

}  // namespace

int stages_ahead(const TileShape& s) { return s.groups && s.stages > 3 ? s.stages - 2 : s.stages - 1; }

int64_t shared_bytes_of(const Product& p, const TileShape& s) {
  const int64_t results =
      p.lanes_are_rows ? int64_t{4} * s.columns * (s.rows + 4) : int64_t{4} * s.rows * (s.columns + 4);
  const int64_t steps = (p.depth.size() + tile_depth - 1) / tile_depth;
  return std::max(std::min<int64_t>(s.stages, steps) * stage_bytes(s), results);
}

std::span<const TileShape> tile_shapes() { return shapes; }

bool takes(const TileShape& s, const Product& p) {
  return !s.groups || (p.a.words != Operand::Words::across && p.b.words != Operand::Words::across);
}

namespace {

// Cycles on a device of so many multiprocessors. A block's step takes its products or its bytes, whichever takes
// longer, and never less than its share of what memory lets the stages on their way wait; then its results are stored.
// Blocks that fit on a multiprocessor do one what the others do not.
double estimate(const Product& p, const TileShape& s) {
  constexpr double latency = 1600;  // from the request of a stage to its bytes
  const auto parts = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
  const int64_t blocks = parts(p.rows.size(), s.rows) * parts(p.columns.size(), s.columns) * p.batch.size() * p.copies;
  const int64_t registers = std::min(255, s.rows * s.columns / s.threads() + 50);
  const int64_t fit = std::min({(int64_t{227} << 10) / (shared_bytes_of(p, s) + 1024), 2048 / int64_t{s.threads()},
                                65536 / (registers * s.threads())});
  const int64_t beside = std::max<int64_t>(std::min(fit, parts(blocks, multiprocessors)), 1);
  const double results = double(s.rows) * s.columns, products = results * tile_depth / (s.groups ? 1900 : 1200),
               bytes = static_cast<double>(stage_bytes(s)) / (s.groups ? 31.0 : 28.0);
  const auto steps = static_cast<double>(parts(p.depth.size(), tile_depth));
  const double step = std::max(products, bytes), store = results * 0.12;
  const double waited = latency / (stages_ahead(s));
  const double alone = steps * std::max(step, waited) + 900 + products / 2 + store;
  const double shared = static_cast<double>(beside) * std::max(steps * step, store);
  return static_cast<double>(parts(blocks, multiprocessors * beside)) * std::max(alone, shared);
}

}  // namespace

TileShape choose_tile(const Product& p, const Features& features, double* cycles) {
  constexpr int most_stages = 8;
  const int64_t most_bytes = (features.groups ? 200 : 99) << 10;  // of a block on every device that is compiled for
  TileShape best = shapes[0];
  double least = 0;
  for (TileShape s : shapes) {
    if ((s.groups && !features.groups) || !takes(s, p)) continue;
    const auto deepest = static_cast<int>(std::min<int64_t>(most_stages, most_bytes / stage_bytes(s)));
    for (const int stages : {s.stages, std::max(s.stages, deepest)}) {
      s.stages = stages;
      const double all = estimate(p, s);
      if (least == 0 || all < least) best = s, least = all;
    }
  }
  if (cycles) *cycles = least;
  return best;
}

}  // namespace npusim::cuda
