// The devices that are asked, and programs made for them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "npusim/session.h"
#include "runtime/backend.h"

namespace npusim::test {

// Where programs run, and how they come there.
struct DeviceCase {
  std::string name;
  const CodegenTarget* target = nullptr;  // that programs are compiled for; none: the CPU's
  // New devices, each time.
  std::function<std::vector<std::shared_ptr<Backend>>()> open;
  // The program with its steps on them; sound if the given one is.
  std::function<Program(const Program&)> place;
};
std::ostream& operator<<(std::ostream& out, const DeviceCase& device);

// All of them, and those of one device, for which programs need not be split. Each executable of this suite has its
// own.
const std::vector<DeviceCase>& device_cases();
std::vector<DeviceCase> lone_device_cases();

// The program with a second device, which runs kernel IR, and on it the steps of methods for which `there` is true
// (with the kernel and the position of the step) and which touch no state; those of one launch go together. Whatever
// one device computed and the other reads is transferred before, once.
Program split_program(const Program& program, const std::function<bool(const Kernel&, size_t)>& there);
Program every_second_kernel_split(const Program& program);

// A device that counts what the host moves to and from it.
struct Traffic {
  std::atomic<size_t> uploads = 0, uploaded = 0, downloads = 0, downloaded = 0;  // calls and bytes
};
std::shared_ptr<Backend> count_traffic(std::shared_ptr<Backend> device, Traffic& traffic);

}  // namespace npusim::test
