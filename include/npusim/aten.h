// The plugin that runs operators of ATen for which npusim has no kernels, by PyTorch's own library.
//
// It is libnpusim_aten.so beside npusim's library, or the file that NPUSIM_ATEN names, and is opened when the first
// such operator is compiled or a program that has one is opened. Without it they are refused by name.
#pragma once
#include <string>

#include "npusim/device.h"

namespace npusim {

// Names another file, for what is compiled, evaluated and opened from now on in this process; "": as above again.
NPUSIM_API void use_aten_plugin(const std::string& path);
// What is used, or why nothing can be.
NPUSIM_API DeviceInfo aten_plugin();

}  // namespace npusim
