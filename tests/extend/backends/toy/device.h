// The toy device: memory of its own, a queue that a thread of its own works off, kernels evaluated element by element.
#pragma once
#include <memory>

#include "runtime/backend.h"

namespace npusim::toy {

std::shared_ptr<Backend> open_device(int index);
DeviceInfo probe_device();

}  // namespace npusim::toy
