// The devices that are asked, and programs made for them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace npusim::test {

// How a program compiled for the CPU comes to run elsewhere.
struct DeviceCase {
  std::string name;
  // New devices, each time.
  std::function<std::vector<std::shared_ptr<Backend>>()> open;
  // The program with its steps on them; sound if the given one is.
  std::function<Program(const Program&)> place;
};
std::ostream& operator<<(std::ostream& out, const DeviceCase& device);

// The CPU; the toy; the CPU with every second kernel on the toy; the toy with every second kernel on the CPU; two toys.
const std::vector<DeviceCase>& device_cases();

// The program with a second device, and on it the steps of methods for which `there` is true (with the position of the
// step) and which touch no state. Whatever one device computed and the other reads is transferred before, once.
Program split_program(const Program& program, const std::function<bool(size_t)>& there);

// A device that counts what the host moves to and from it.
struct Traffic {
  std::atomic<size_t> uploads = 0, uploaded = 0, downloads = 0, downloaded = 0;  // calls and bytes
};
std::shared_ptr<Backend> count_traffic(std::shared_ptr<Backend> device, Traffic& traffic);

}  // namespace npusim::test
