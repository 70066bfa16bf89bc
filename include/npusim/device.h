// The devices that programs run on. A device may be used by any number of sessions and threads at once.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "npusim/error.h"

namespace npusim {

class Backend;  // an open device: memory, and queues of work

struct DeviceInfo {
  std::string name;         // "cpu"
  std::string description;  // what it is, or why it cannot be used
  bool usable = false;
};

// What a device can do, measured now, for about a second; zeros where it has no way to find out.
struct DeviceLimits {
  double read_gb_s = 0;  // 1e9 bytes/s that are read of its memory
  double gflop_s = 0;    // 1e9 FLOP/s of bfloat16 products that are added in float32
};

// An implementation that was asked before the one that does the work, and why it does not: "gemv", "128 rows".
struct Declined {
  std::string implementation, reason;
};

// How a step is executed, for people: "matmul 128x768x768 f32", "loops"; and who declined before, in their order.
struct StepInfo {
  std::string how;
  std::vector<Declined> declined;
};

// "cpu", "null", "cuda:1": throws usage for an unknown name, device when it cannot be opened.
NPUSIM_API std::shared_ptr<Backend> open_backend(const std::string& device);
NPUSIM_API DeviceLimits measure_device(const std::string& device);  // throws as open_backend() does
// Every kind of device of this build and what it found.
NPUSIM_API std::vector<DeviceInfo> list_devices();

}  // namespace npusim
