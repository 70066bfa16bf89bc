// The table of ranges.
#include "program/config_ranges.h"

#include <fmt/format.h>

namespace npusim {
namespace {

constexpr int64_t most_bytes = 65536;         // of an alignment
constexpr int64_t most_rate = 1'000'000'000;  // 1e9 GB or GFLOP per second

constexpr int64_t most_memory = int64_t{1} << 40;

constexpr ConfigRange<TargetConfig> rules[] = {
    {"channel_alignment_bytes", &TargetConfig::channel_alignment_bytes, 1, most_bytes},
    {"channel_tile", &TargetConfig::channel_tile, 0, most_bytes},
    {"buffer_alignment_bytes", &TargetConfig::buffer_alignment_bytes, 1, most_bytes, true},
    {"max_rank", &TargetConfig::max_rank, 1, 64},
};
constexpr ConfigRange<Machine> machine[] = {
    {"units", &Machine::units, 1, 65536},
    {"unit_bytes", &Machine::unit_bytes, 0, most_memory},
    {"block_bytes", &Machine::block_bytes, 0, most_memory},
    {"memory_gb_s", &Machine::memory_gb_s, 1, most_rate},
    {"gflop_s", &Machine::gflop_s, 1, most_rate},
    {"gflop_s_16_bit", &Machine::gflop_s_16_bit, 1, most_rate},
    {"link_gb_s", &Machine::link_gb_s, 1, most_rate},
    {"link_us", &Machine::link_us, 0, most_rate},
};

}  // namespace

std::span<const ConfigRange<TargetConfig>> config_ranges() { return rules; }
std::span<const ConfigRange<Machine>> machine_ranges() { return machine; }

std::string range_problem(const char* key, int64_t value, int64_t low, int64_t high, bool power_of_two) {
  const auto power = [&] { return (value & (value - 1)) == 0; };
  if (value >= low && value <= high && (!power_of_two || power())) return {};
  return fmt::format("{}: expected {} from {} to {}, found {}", key, power_of_two ? "a power of two" : "an integer",
                     low, high, value);
}

}  // namespace npusim
