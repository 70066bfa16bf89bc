// The host CPU as a device.
#pragma once
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace npusim::cpu {

std::shared_ptr<Backend> open_device(int index);
DeviceInfo probe_device();

}  // namespace npusim::cpu
