// The null device: memory that is real, work that is not done. Copy this folder to start a backend.
#pragma once
#include <memory>

#include "runtime/backend.h"

namespace npusim::null {

// Found by the build through the folder's name: npusim::<folder>::open_device() and probe_device().
std::shared_ptr<Backend> open_device(int index);
DeviceInfo probe_device();

}  // namespace npusim::null
