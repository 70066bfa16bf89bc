// Products on tensor cores, of float32 by fma: a block makes a tile of rows and columns, through stages in shared
// memory.
#pragma once
#include "backends/cuda/codegen/generated.h"
#include "backends/cuda/codegen/text.h"
#include "plan/product.h"

namespace npusim::cuda::codegen::products {

struct TileShape {
  int rows = 64, columns = 64;
  int warps_along_rows = 2, warps_along_columns = 2;
  int stages = 3;
  bool groups = false;  // of four warps, which multiply what lies in shared memory: 64 rows each; sm_90a alone
  int pieces = 1;       // of the depth: blocks of one cluster, which add their sums in the order of pieces; from 9.0 on
  bool specialized = false;  // groups: a producer warpgroup fills the stages; a block makes one tile after the other
  // Of a pair: behind `wide` columns of tiles as wide as `columns`, tiles are only `narrow`, 0: all are alike. So the
  // last round has a tile for each block.
  int narrow = 0, wide = 0;
  int multipliers() const { return 32 * warps_along_rows * warps_along_columns; }
  int threads() const { return multipliers() + (specialized ? 128 : 0); }
  int loaders() const { return specialized ? 128 : multipliers(); }
};
inline constexpr int tile_depth = 64;  // elements of a stage: 128 bytes of a line
inline int depth_of_stage(const Product& p) { return tile_depth / word * word_of(p); }

// All there are.
std::span<const TileShape> tile_shapes();
std::span<const TileShape> pair_tile_shapes();  // and what is for two matrices only
// Stages that are asked for while another one is multiplied, and what a block has of shared memory.
int stages_ahead(const TileShape& shape);
int64_t shared_bytes_of(const Product& product, const TileShape& shape);
// Floats from a line of results in shared memory to the next: a warp's stores meet in no bank.
int results_pitch(const Product& product, const TileShape& shape);
int64_t steps_of(const Product& product);                                // of a stage
int64_t steps_of_piece(const Product& product, const TileShape& shape);  // at most
bool takes(const TileShape& shape, const Product& product);
// Whether lines follow each other in even steps, whole words each.
bool has_even_lines(const Product& product, const Operand& operand, const Axis& axis);
// A tile and the cycles that it is estimated to take.
struct RatedTile {
  TileShape shape;
  double cycles = 0;
};
// Those that can make a product, the fastest first: there always is one.
std::vector<RatedTile> rate_tiles(const Product& product, const Features& features);
// Of a product with a second matrix; none where two kernels are made instead.
std::vector<RatedTile> rate_pair_tiles(const Product& product, const Features& features);
// Of several products of the same rows whose columns are whole tiles, for all of them at once.
std::vector<RatedTile> rate_columns_tiles(std::span<const Product> products, const Features& features);
// The first so many that differ in more than their stages.
std::vector<TileShape> likeliest(std::span<const RatedTile> tiles, size_t most);

// Of the result: a product with a second matrix has two sums for each.
inline int columns_of(const Product& p, const TileShape& s) { return p.second_b >= 0 ? s.columns / 2 : s.columns; }
// Rows of a warp's sums follow each other by 16; of a warpgroup's, which are 64 for all groups each time, by more.
inline int next_rows(const TileShape& s) { return s.groups ? 16 * s.warps_along_rows : 16; }
inline int rows_of_warp(const TileShape& s) { return s.rows / s.warps_along_rows; }
inline int columns_of_warp(const TileShape& s) { return s.columns / s.warps_along_columns; }
// Whether columns lie in such lines of a stage that a lane's sums of four tiles of eight are eight neighbours: of
// warp-specialized tiles, and where they are few, which then are stored from registers.
bool has_neighbours(const Product& product, const TileShape& shape);
// Whether what the epilogue reads is asked for before the products, and the text that does.
bool reads_early(const Product& product, const TileShape& shape);
void add_reads(Lines& to, const Kernel& kernel, const Product& product, const TileShape& shape);
// Text behind the sums. Where they are no neighbours, they are exchanged through shared memory, so that a thread has
// neighbours in the result's.
void add_results(Lines& to, const Kernel& kernel, const Product& product, const TileShape& shape);
// Of warp-specialized tiles: from a group's registers to memory. Shared memory is the next tile's already.
void add_results_from_registers(Lines& to, const Kernel& kernel, const Product& product, const TileShape& shape);
int64_t tiles_of(const Product& product, const TileShape& shape);

std::string tiles_decline(const Product& product);  // "" if they do not
GeneratedKernel make_tiles(const Kernel& kernel, const Product& product, const TileShape& shape,
                           const Features& features);

}  // namespace npusim::cuda::codegen::products
