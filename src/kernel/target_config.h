// What a target's hardware rules are, as data: read from JSON, built in for each backend, overridden by the user.
#pragma once
#include <cstdint>
#include <string>

namespace npusim {

enum class ImageLayout : uint8_t { channels_first, channels_last };

struct TargetConfig {
  std::string name;
  int64_t channel_alignment_bytes = 64;  // of an image's channels side by side; 1: any number of them will do
  int64_t channel_tile = 0;              // images are stored in tiles of this many channels; 0: not in tiles
  bool pad_channels = true;              // images are padded to the alignment; false: others are refused
  int64_t matmul_tile = 0;
  int64_t max_threadgroup_1d = 1024;
  int64_t max_threadgroup_2d = 32;
  int64_t max_threadgroup_3d = 8;
  int64_t max_dispatches_per_batch = 0;  // 0: unlimited
  int64_t buffer_alignment_bytes = 64;
  int64_t max_rank = 8;
  ImageLayout image_layout = ImageLayout::channels_last;
};

}  // namespace npusim
