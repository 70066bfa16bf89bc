// Products on tensor cores: a block makes a tile of rows and columns, through stages in shared memory.
#pragma once
#include "backends/cuda/target/implementations.h"

namespace npusim::cuda {

struct TileShape {
  int rows = 64, columns = 64;
  int warps_along_rows = 2, warps_along_columns = 2;
  int stages = 3;
  bool groups = false;  // of four warps, which multiply what lies in shared memory: 64 rows each; sm_90a alone
  int threads() const { return 32 * warps_along_rows * warps_along_columns; }
};
inline constexpr int tile_depth = 64;  // elements of a stage

// All there are, and of them the one that is estimated to be the fastest; `cycles`, if asked for, are the estimate.
std::span<const TileShape> tile_shapes();
// Stages that are asked for while another one is multiplied, and what a block has of shared memory.
int stages_ahead(const TileShape& shape);
int64_t shared_bytes_of(const Product& product, const TileShape& shape);
bool takes(const TileShape& shape, const Product& product);
TileShape choose_tile(const Product& product, const Features& features, double* cycles = nullptr);

std::string tiles_decline(const Product& product);  // "" if they do not
Made make_tiles(const Kernel& kernel, const Product& product, const TileShape& shape);

}  // namespace npusim::cuda
