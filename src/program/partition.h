// How a program's methods are divided between devices.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/work.h"

namespace npusim {

// A value that crosses from one device to another.
struct Crossing {
  size_t step = 0;
  std::string value;
  int32_t from = 0, to = 0;
  uint64_t bytes = 0;
  double seconds = 0;  // by the nominal rates of the link
};

// Steps of one device that follow each other, and what is transferred before them.
struct DeviceSegment {
  int32_t device = 0;
  size_t steps = 0;
  std::vector<int32_t> origins;  // positions in Program::origins, ascending
  std::vector<Crossing> before;
  uint64_t flops = 0, bytes = 0;  // read and written
  double seconds = 0;             // by the device's nominal rates, without the transfers
};

std::vector<DeviceSegment> segments_of(const Program& program, KernelWorks& works, const Method& method);

}  // namespace npusim
