// Lookup in the table of devices.
#include "runtime/backend.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "base/error.h"
#include "npusim/message.h"
#include "runtime/device_table.h"

namespace npusim {

std::shared_ptr<Backend> open_backend(const std::string& device) {
  const size_t colon = device.find(':');
  const std::string name = device.substr(0, colon);
  int index = 0;
  if (colon != std::string::npos) {
    const char* end = device.data() + device.size();
    const auto [stop, error] = std::from_chars(device.data() + colon + 1, end, index);
    if (error != std::errc{} || stop != end || index < 0)
      fail(ErrorKind::usage, "device {}: expected a number from 0 to {} after the colon", device,
           std::numeric_limits<int>::max());
  }
  std::vector<std::string> names;
  for (const DeviceRow& row : device_table()) {
    if (name == row.name) return row.open(index);
    names.emplace_back(row.name);
  }
  fail(ErrorKind::usage, "unknown device {}: this build has {}{}", device, fmt::join(names, ", "),
       did_you_mean(name, names));
}

DeviceLimits measure_device(const std::string& device) { return open_backend(device)->measure(); }

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  for (const DeviceRow& row : device_table()) devices.push_back(row.probe());
  return devices;
}

}  // namespace npusim
