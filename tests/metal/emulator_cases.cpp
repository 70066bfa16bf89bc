// The emulator, with its threads in three orders, and beside the CPU, which runs kernel IR in the same program.
#include "backends/emulator/device.h"
#include "backends/emulator/target.h"
#include "conformance/devices.h"

namespace npusim::test {
namespace {

std::shared_ptr<Backend> cpu() { return open_backend("cpu"); }

// A launch for each kernel step of the device where there are none yet, in a program that need not be compiled for it.
Program planned(Program program, int32_t device) {
  const auto add_launches = [&](Sequence& sequence) {
    if (!sequence.launches.empty()) return;
    for (size_t i = 0; i < sequence.steps.size(); ++i) {
      if (sequence.steps[i].is_transfer() || sequence.steps[i].device != device) continue;
      Launch& launch = sequence.launches.emplace_back();
      launch.first = static_cast<int32_t>(i);
      launch.count = 1;
    }
  };
  if (!program.code.empty()) return program;
  add_launches(program.recipes);
  for (Method& method : program.methods) add_launches(method);
  emulator::target().plan(program);
  return program;
}

Program for_emulator(const Program& program) { return planned(program, 0); }

Program for_emulator_and_cpu(const Program& program) { return every_second_kernel_split(planned(program, 0)); }

Program for_cpu_and_emulator(const Program& program) {
  const auto there = [](const Kernel& kernel, size_t step) {  // as it is: steps are there already
    const CodegenTarget& target = emulator::target();
    return step % 2 == 1 && target.refuse(kernel).empty() && target.in_parts(kernel).steps.empty();
  };
  return planned(split_program(program, there), 1);
}

}  // namespace

const std::vector<DeviceCase>& device_cases() {
  const auto alone = [](int order) { return [order] { return std::vector{emulator::open_device(order)}; }; };
  static const std::vector<DeviceCase> cases = {
      {"emulator", &emulator::target(), alone(0), for_emulator},
      {"emulator_in_reverse", &emulator::target(), alone(1), for_emulator},
      {"emulator_shuffled", &emulator::target_without_groups(), alone(2), for_emulator},
      {"emulator_and_cpu", &emulator::target(),
       [] {
         return std::vector{emulator::open_device(0), cpu()};
       },
       for_emulator_and_cpu},
      {"cpu_and_emulator", nullptr,
       [] {
         return std::vector{cpu(), emulator::open_device(0)};
       },
       for_cpu_and_emulator},
  };
  return cases;
}

}  // namespace npusim::test
