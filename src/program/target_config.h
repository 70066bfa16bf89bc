// What a target's hardware rules are, as data: read from JSON, built in for each backend, overridden by the user.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace npusim {

enum class ImageLayout : uint8_t { channels_first, channels_last };

// What the hardware has. Launches are chosen for it, and times estimated by it; nothing depends on it for being right.
struct Machine {
  int64_t units = 1;             // that do blocks of work side by side: cores, multiprocessors, engines
  int64_t unit_bytes = 0;        // of fast memory that the blocks of a unit share; 0: there is none to plan for
  int64_t block_bytes = 0;       // of it that one block may have
  int64_t memory_gb_s = 20;      // 1e9 bytes per second of the device's memory
  int64_t gflop_s = 200;         // 1e9 FLOP per second of products of float32, two for a multiplication that adds
  int64_t gflop_s_16_bit = 200;  // and of float16 and bfloat16
  int64_t link_gb_s = 16;        // between the device's memory and the host's
  int64_t link_us = 10;          // what a transfer costs beside its bytes
  bool operator==(const Machine&) const = default;
};

struct TargetConfig {
  std::string name;
  // Rules that all targets have.
  int64_t channel_alignment_bytes = 64;  // of an image's channels side by side; 1: any number of them will do
  int64_t channel_tile = 0;              // images are stored in tiles of this many channels; 0: not in tiles
  bool pad_channels = true;              // images are padded to the alignment; false: others are refused
  int64_t buffer_alignment_bytes = 64;
  int64_t max_rank = 8;
  // Products are fast where both operands are of one 16-bit dtype: weights that a recipe scales are float16 in a
  // float16 program too, and refused at load where it does not hold them.
  bool equal_operands = false;
  ImageLayout image_layout = ImageLayout::channels_last;
  Machine machine;
  // What this target alone has, by name: which there are, and what they may be, it says itself (CodegenTarget::own).
  std::map<std::string, int64_t> own = {};
};

// Of which buffers begin at multiples, in bytes: what the target asks for, and an element of any dtype at least.
inline uint64_t buffer_alignment(const TargetConfig& config) {
  constexpr int64_t widest = 8;
  return static_cast<uint64_t>(std::max(config.buffer_alignment_bytes, widest));
}

}  // namespace npusim
