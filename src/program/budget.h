// What a program takes, found from its description alone: nothing is allocated or run.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim {

inline constexpr uint64_t most_value_bytes = uint64_t{1} << 46;  // of a buffer or an arena

// Of one of a program's devices, beside the weight files that it may read in place.
struct DeviceNeeds {
  uint64_t bytes = 0;
  uint64_t largest_bytes = 0;  // of the largest single thing
  std::string largest;         // what that is: "output 'y' of float32[8]"
};
std::vector<DeviceNeeds> device_needs(const Program& program);

// Throws unsupported for values that are larger than a program can hold, and check_budget()'s.
void check_needs(const Program& program, const Budget& budget);

}  // namespace npusim
