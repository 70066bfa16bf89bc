// The toy device: it evaluates kernels element by element.
#pragma once
#include <memory>

#include "runtime/backend.h"

namespace npusim::toy {

std::unique_ptr<Backend> open_device(const DeviceOptions& options);
DeviceInfo probe_device();

}  // namespace npusim::toy
