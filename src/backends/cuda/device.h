// NVIDIA GPUs: executes the launches of programs that were compiled for them, through the driver alone.
#pragma once
#include <memory>

#include "runtime/backend.h"

namespace npusim::cuda {

std::shared_ptr<Backend> open_device(int index);
DeviceInfo probe_device();

}  // namespace npusim::cuda
