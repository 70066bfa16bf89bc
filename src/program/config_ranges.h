// What the numbers of a target config may be, in a program and in a user's JSON.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "program/target_config.h"

namespace npusim {

// A number of a config and what it may be, both ends included.
struct ConfigRange {
  const char* key;  // the member's name
  int64_t TargetConfig::*member;
  int64_t low, high;
  bool power_of_two = false;
};
std::span<const ConfigRange> config_ranges();
// What a number is not that it must be: "expected …, found …"; empty when it is fine.
std::string range_problem(const ConfigRange& range, int64_t value);

}  // namespace npusim
