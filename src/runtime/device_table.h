// The devices of this build; its definition is generated from the folders of backends/ (src/CMakeLists.txt).
#pragma once
#include "runtime/backend.h"

namespace npusim {

struct DeviceRow {
  const char* name;
  std::shared_ptr<Backend> (*open)(int index);
  DeviceInfo (*probe)();
};
std::vector<DeviceRow> device_table();

}  // namespace npusim
