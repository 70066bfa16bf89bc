// The tiles there are, and how long each is estimated to take.
#include <algorithm>

#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/codegen/text.h"

namespace npusim::cuda::codegen::products {
namespace {

constexpr TileShape shapes[] = {
    {128, 256, 8, 1, 4, true},
    {128, 192, 8, 1, 4, true},
    {128, 160, 8, 1, 5, true},
    {192, 128, 12, 1, 4, true},
    {128, 128, 8, 1, 3, true},
    {128, 96, 8, 1, 4, true},
    {128, 64, 8, 1, 4, true},
    {64, 128, 4, 1, 4, true},
    {128, 256, 8, 1, 4, true, 1, true},
    {128, 192, 8, 1, 4, true, 1, true},
    {128, 128, 8, 1, 4, true, 1, true},
    {128, 144, 8, 1, 4, true, 1, true},
    {256, 128, 8, 1, 4, true, 1, true},
    {256, 64, 8, 1, 4, true, 1, true},
    {128, 64, 8, 1, 4, true, 1, true},
    {64, 96, 4, 1, 4, true},
    {64, 64, 4, 1, 4, true},
    {128, 128, 2, 4, 3},
    {128, 64, 2, 2, 3},
    {64, 128, 2, 2, 3},
    {64, 64, 2, 2, 4},
    {32, 64, 2, 2, 4},
    {64, 32, 2, 2, 4},
    {32, 32, 2, 2, 4},
    {16, 64, 1, 4, 4},
    {256, 192, 8, 1, 3, true, 1, true},  // of pairs alone: no others were measured
};

int64_t stage_bytes(const TileShape& s) { return int64_t{2} * (s.rows + s.columns) * tile_depth; }

}  // namespace

int stages_ahead(const TileShape& s) { return s.groups && s.stages > 3 ? s.stages - 2 : s.stages - 1; }

int64_t shared_bytes_of(const Product& p, const TileShape& s) {
  if (s.specialized) return std::min<int64_t>(s.stages, steps_of(p)) * (stage_bytes(s) + 16);
  if (has_neighbours(p, s)) return std::min<int64_t>(s.stages, steps_of_piece(p, s)) * stage_bytes(s);
  const int64_t results = int64_t{4} * (p.lanes_are_rows ? s.columns : s.rows) * results_pitch(p, s);
  return std::max(std::min<int64_t>(s.stages, steps_of_piece(p, s)) * stage_bytes(s), results);
}

int results_pitch(const Product& p, const TileShape& s) { return p.lanes_are_rows ? s.rows + 4 : s.columns + 8; }

int64_t steps_of(const Product& p) { return (p.depth.size() + depth_of_stage(p) - 1) / depth_of_stage(p); }

int64_t steps_of_piece(const Product& p, const TileShape& s) { return (steps_of(p) + s.pieces - 1) / s.pieces; }

std::span<const TileShape> tile_shapes() { return std::span(shapes).first(std::size(shapes) - 1); }

std::span<const TileShape> pair_tile_shapes() { return shapes; }

bool has_even_lines(const Product& p, const Operand& o, const Axis& axis) {
  return axis.dims.size() <= 1 && o.bounds.empty() && p.filled == word_of(p);
}

bool takes(const TileShape& s, const Product& p) {
  if (!s.groups) return true;
  if (p.dtype == DType::f32) return false;
  if (!s.specialized) return p.a.words != Operand::Words::across && p.b.words != Operand::Words::across;
  // Where a lane has 192 sums, who fills stages has registers for even steps only.
  if (s.rows * s.columns > 128 * 256 && !(has_even_lines(p, p.a, p.rows) && has_even_lines(p, p.b, p.columns)))
    return false;
  return p.a.words == Operand::Words::along_depth && p.b.words == Operand::Words::along_depth && p.lanes == word &&
         !p.lanes_are_rows && p.copies == 1;
}

namespace {

int64_t parts(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

}  // namespace

int64_t tiles_of(const Product& p, const TileShape& s) {
  if (s.narrow > 0) {
    TileShape narrow = s;
    narrow.columns = s.narrow;
    const int64_t left = p.columns.size() - int64_t{s.wide} * columns_of(p, s);
    return p.rows.size() / s.rows * (s.wide + left / columns_of(p, narrow));
  }
  return parts(p.rows.size(), s.rows) * parts(p.columns.size(), columns_of(p, s)) * p.batch.size();
}

namespace {

int64_t blocks_of(const Product& p, const TileShape& s) { return tiles_of(p, s) * p.copies * s.pieces; }

// How many blocks in clusters of this many are resident at once.
int64_t clusters_at_once(int pieces, const Features& features) {
  if (pieces <= 2) return features.units;
  return features.cluster_blocks[pieces == 3 ? 0 : pieces == 4 ? 1 : pieces == 6 ? 2 : 3];
}

// Cycles of a step's products. By fma, of what a multiprocessor can begin in a cycle, 128, and of what its shared
// memory gives the lanes: not yet fitted to times.
double products_of(const Product& p, const TileShape& s) {
  const double products = double(s.rows) * s.columns * depth_of_stage(p);
  if (p.dtype != DType::f32) return products / (s.groups ? 1900 : 1200);
  const double reads =
      double(s.threads()) / 32 * (rows_of_warp(s) / 8.0 + columns_of_warp(s) / 4.0) * depth_of_stage(p);
  return std::max(products / 110, reads * 0.75);
}

// Cycles on a device of so many multiprocessors, by numbers that were fitted to measured times of some 150 products and
// tiles. A block's step takes its products or its bytes, whichever takes longer, never less than its share of what
// memory lets the stages in flight wait, and where each warp multiplies by itself no less than its instructions in
// their order. Then its results are stored, and before that added to those of other pieces. Blocks that fit on a
// multiprocessor do one what the others do not.
double estimate(const Product& p, const TileShape& s, const Features& features) {
  constexpr double latency = 1560;  // from the request of a stage to its bytes
  constexpr double begin = 1500;
  const int64_t blocks = blocks_of(p, s);
  const bool fma = p.dtype == DType::f32;
  const int64_t registers = std::min(255, s.rows * s.columns / s.threads() + (fma ? rows_of_warp(s) / 2 + 40 : 28));
  const int64_t fit = std::min({features.unit_bytes / (shared_bytes_of(p, s) + 1024), 2048 / int64_t{s.threads()},
                                65536 / (registers * s.threads())});
  const int64_t resident = std::max<int64_t>(std::min(fit, parts(blocks, features.units)), 1);
  const double results = double(s.rows) * s.columns, products = products_of(p, s),
               bytes = static_cast<double>(stage_bytes(s)) / (s.groups ? 38.0 : 23.0);
  if (s.specialized) {
    const double each =
        std::max({products, static_cast<double>(stage_bytes(s)) / 39.5, latency / static_cast<double>(s.stages - 1)});
    const double made = results / (p.second_b >= 0 ? 2 : 1);
    const auto rounds = static_cast<double>(parts(blocks, features.units));
    // With one tile alone no next tile's words are copied before what its epilogue reads.
    const double store = 0.22 + (rounds > 1 ? 0.17 : 0.06) * p.reads + 0.008 * p.work;
    return 2 * begin + rounds * (static_cast<double>(steps_of(p)) * each + store * made);
  }
  const int warps = s.threads() / 32;
  const double in_order = s.groups ? 0
                          : fma    ? 170 + 1.25 * results * depth_of_stage(p) / warps / 32
                                   : 170 + 18.5 * results * tile_depth / warps / (16 * 8 * 16);
  const auto steps = static_cast<double>(steps_of_piece(p, s)), together = static_cast<double>(resident);
  // Those who multiply also compute where an image's words are.
  const double walk = s.groups && !(p.a.bounds.empty() && p.b.bounds.empty()) ? 1.2 : 1;
  const double step = std::max(products, bytes) * walk;
  const double store =
      (0.32 + 0.016 * p.work) * results + (s.pieces == 1 ? 0 : 610 + 350 * (s.pieces - 1) + 0.12 * results);
  const double alone = steps * std::max({step, in_order, latency / stages_ahead(s)});
  const auto rounds = static_cast<double>(parts(blocks, features.units * resident));
  return rounds * ((rounds > 1 ? begin / together : begin) +
                   std::max(store + std::max(alone, together * steps * step), together * store));
}

// With narrow tiles for the last columns, where the last round has too few wide ones: as many columns are wide as let
// the block with most to do end first.
TileShape fill_last_round(const Product& p, const TileShape& s, const Features& features) {
  constexpr int narrow = 128;     // lines, of both matrices
  constexpr double share = 0.75;  // of a wide tile's time
  if (s.rows != 256 || s.columns != 192 || p.rows.size() % s.rows != 0 || !p.batch.dims.empty()) return s;
  const int64_t rows = p.rows.size() / s.rows, all = parts(p.columns.size(), columns_of(p, s));
  TileShape best = s;
  auto least = static_cast<double>(parts(rows * all, features.units));
  for (int64_t wide = all - 1; wide > 0; --wide) {
    const int64_t left = p.columns.size() - wide * columns_of(p, s);
    if (left % (narrow / 2) != 0) continue;
    const int64_t tiles = rows * (wide + left / (narrow / 2));
    double most = 0;
    for (int64_t block = 0; block < features.units; ++block) {
      const auto mine = [&](int64_t count) { return (count - block + features.units - 1) / features.units; };
      const auto first = static_cast<double>(mine(rows * wide)), both = static_cast<double>(mine(tiles));
      most = std::max(most, first + share * (both - first));
    }
    if (most < least) least = most, best.narrow = narrow, best.wide = static_cast<int>(wide);
  }
  return best;
}

}  // namespace

namespace {

std::vector<RatedTile> sorted(std::vector<RatedTile> tiles) {
  std::stable_sort(tiles.begin(), tiles.end(),
                   [](const RatedTile& a, const RatedTile& b) { return a.cycles < b.cycles; });
  return tiles;
}

// Of stages, of a block.
int64_t most_bytes(const Features& features) {
  return features.groups ? features.block_bytes - (15 << 10) : least_block_bytes;
}

constexpr int least_stages = 2;  // one is multiplied while the next one comes

// As many stages as fit: of warp-specialized tiles.
TileShape with_all_stages(TileShape s, const Features& features) {
  s.stages = static_cast<int>(std::min<int64_t>(8, most_bytes(features) / stage_bytes(s)));
  return s;
}

}  // namespace

std::vector<RatedTile> rate_pair_tiles(const Product& p, const Features& features) {
  std::vector<RatedTile> tiles;
  if (p.rows.size() <= 64) return tiles;
  for (const TileShape& shape : shapes)
    if (const TileShape s = with_all_stages(shape, features); s.specialized && s.stages >= least_stages && takes(s, p))
      tiles.push_back({s, estimate(p, s, features)});
  tiles = sorted(std::move(tiles));
  for (RatedTile& t : tiles) t.shape = fill_last_round(p, t.shape, features);
  return tiles;
}

std::vector<RatedTile> rate_columns_tiles(std::span<const Product> products, const Features& features) {
  Product all = products[0];
  int64_t columns = 0;
  for (const Product& p : products) {
    columns += p.columns.size();
    all.reads = std::max(all.reads, p.reads), all.work = std::max(all.work, p.work);
  }
  all.columns.extents = {columns};
  std::vector<RatedTile> tiles;
  for (const TileShape& shape : tile_shapes())
    if (shape.specialized && std::all_of(products.begin(), products.end(), [&](const Product& p) {
          return takes(shape, p) && p.rows.size() % shape.rows == 0 && p.columns.size() % shape.columns == 0;
        })) {
      const TileShape s = with_all_stages(shape, features);
      if (s.stages >= least_stages) tiles.push_back({s, estimate(all, s, features)});
    }
  return sorted(std::move(tiles));
}

std::vector<RatedTile> rate_tiles(const Product& p, const Features& features) {
  constexpr int most_stages = 8;
  std::vector<RatedTile> tiles;
  for (TileShape s : tile_shapes()) {
    if ((s.groups && !features.groups) || !takes(s, p) || s.columns == 144) continue;
    if (s.specialized) {
      s = with_all_stages(s, features);
      if (s.stages >= least_stages) tiles.push_back({s, estimate(p, s, features)});
      continue;
    }
    const auto deepest = static_cast<int>(std::min<int64_t>(most_stages, most_bytes(features) / stage_bytes(s)));
    for (const int stages : {std::max(s.stages, deepest), s.stages}) {
      if (stages * stage_bytes(s) > most_bytes(features)) continue;
      for (const int pieces : {1, 2, 3, 4, 6, 8}) {
        s.stages = stages, s.pieces = pieces;
        if (pieces > 1 &&
            (!features.groups || pieces > steps_of(p) || blocks_of(p, s) > clusters_at_once(pieces, features)))
          break;
        tiles.push_back({s, estimate(p, s, features)});
      }
    }
  }
  return sorted(std::move(tiles));
}

std::vector<TileShape> likeliest(std::span<const RatedTile> tiles, size_t most) {
  std::vector<TileShape> some;
  const auto alike = [](const TileShape& a, const TileShape& b) {
    return a.rows == b.rows && a.columns == b.columns && a.threads() == b.threads() && a.groups == b.groups &&
           a.warps_along_rows == b.warps_along_rows && a.pieces == b.pieces;
  };
  for (const RatedTile& t : tiles) {
    if (some.size() == most) break;
    if (std::none_of(some.begin(), some.end(), [&](const TileShape& s) { return alike(s, t.shape); }))
      some.push_back(t.shape);
  }
  return some;
}

}  // namespace npusim::cuda::codegen::products
