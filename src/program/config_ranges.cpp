// The table of ranges.
#include "program/config_ranges.h"

#include <fmt/format.h>

namespace npusim {
namespace {

constexpr int64_t most_bytes = 65536;         // of an alignment
constexpr int64_t most_rate = 1'000'000'000;  // 1e9 GB or GFLOP per second

constexpr ConfigRange ranges[] = {
    {"channel_alignment_bytes", &TargetConfig::channel_alignment_bytes, 1, most_bytes},
    {"channel_tile", &TargetConfig::channel_tile, 0, most_bytes},
    {"buffer_alignment_bytes", &TargetConfig::buffer_alignment_bytes, 1, most_bytes, true},
    {"max_rank", &TargetConfig::max_rank, 1, 64},
    {"memory_gb_s", &TargetConfig::memory_gb_s, 1, most_rate},
    {"gflop_s", &TargetConfig::gflop_s, 1, most_rate},
    {"link_gb_s", &TargetConfig::link_gb_s, 1, most_rate},
    {"link_us", &TargetConfig::link_us, 0, most_rate},
};

}  // namespace

std::span<const ConfigRange> config_ranges() { return ranges; }

std::string range_problem(const ConfigRange& range, int64_t value) {
  const auto power = [&] { return (value & (value - 1)) == 0; };
  if (value >= range.low && value <= range.high && (!range.power_of_two || power())) return {};
  return fmt::format("{}: expected {} from {} to {}, found {}", range.key,
                     range.power_of_two ? "a power of two" : "an integer", range.low, range.high, value);
}

}  // namespace npusim
