// How a target stores images, and which values may be stored as it likes.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "kernel/fuse/index_map.h"
#include "program/target_config.h"

namespace npusim {

// Memory of an image [n, channels, spatial…].
struct ImageStorage {
  StoredDims dims;               // the row-major image; channels stored in tiles are two dimensions
  std::vector<int64_t> strides;  // in memory, one per dimension of `dims`
  Shape extents;                 // in memory, outermost first
  bool tiled = false;
};

// Channels side by side are padded to the alignment and to whole tiles. More channels than a tile holds are stored as
// [n, channels / tile, spatial…, tile], unless the last tile would be partly filled: no access says where an index
// leaves its tile; those are stored channels last, padded to whole tiles.
ImageStorage image_storage(const TensorType& type, const TargetConfig& config);

// Whether convolutions take padded or tiled images and no others: every image they read or write must be stored so.
bool has_own_images(const TargetConfig& config);

// Channels of this dtype that must stand side by side.
int64_t aligned_channels(DType dtype, const TargetConfig& config);

// By value: computed in every run, seen by kernels only, no calls, and updated by none. Its layout is the compiler's.
std::vector<bool> private_values(const Graph& graph);

// Whether `value`, which a convolution over the kernel's space reaches with `channel_stride`, is an image in its
// dimensions: [n, channels, spatial…], row-major.
bool is_image(const Kernel& conv, const Value& value, int64_t channel_stride);
// The strides along the channels of what a convolution reads and of what a store writes.
int64_t read_channel_stride(const Kernel& conv);
int64_t written_channel_stride(const Kernel& conv, const Store& store);

}  // namespace npusim
