// What the numbers of a target config may be, in a program and in a user's JSON.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "program/target_config.h"

namespace npusim {

// A number of a config, or of its machine, and what it may be, both ends included.
template <typename Of>
struct ConfigRange {
  const char* key;  // the member's name
  int64_t Of::*member;
  int64_t low, high;
  bool power_of_two = false;
};
std::span<const ConfigRange<TargetConfig>> config_ranges();
std::span<const ConfigRange<Machine>> machine_ranges();
inline constexpr size_t most_own_values = 64;  // of TargetConfig::own
inline constexpr int64_t most_own_value = 1'000'000'000'000'000;
// What a number is not that it must be: "expected …, found …"; empty when it is fine.
std::string range_problem(const char* key, int64_t value, int64_t low, int64_t high, bool power_of_two = false);
template <typename Of>
std::string range_problem(const ConfigRange<Of>& range, int64_t value) {
  return range_problem(range.key, value, range.low, range.high, range.power_of_two);
}

}  // namespace npusim
