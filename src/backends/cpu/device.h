// The host CPU as a device.
#pragma once
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace npusim::cpu {

std::unique_ptr<Backend> open_device(const DeviceOptions& options);
DeviceInfo probe_device();

}  // namespace npusim::cpu
