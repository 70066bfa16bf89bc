// The emulator device: executes a program's launches from the Metal text that the program stores, on this machine's
// CPU.
#pragma once
#include <memory>

#include "runtime/backend.h"

namespace npusim::emulator {

// 0: threads and blocks in order; 1: in reverse; 2: shuffled. Results must not depend on it.
std::shared_ptr<Backend> open_device(int order);
DeviceInfo probe_device();

}  // namespace npusim::emulator
