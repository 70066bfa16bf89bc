// The CPU and the toy, alone and together.
#include "backends/toy/device.h"
#include "conformance/devices.h"

namespace npusim::test {
namespace {

std::shared_ptr<Backend> cpu() { return open_backend("cpu"); }
std::shared_ptr<Backend> remote() { return toy::open_device(0); }
Program as_it_is(const Program& program) { return program; }

}  // namespace

const std::vector<DeviceCase>& device_cases() {
  static const std::vector<DeviceCase> cases = {
      {"cpu", nullptr, [] { return std::vector{cpu()}; }, as_it_is},
      {"remote", nullptr, [] { return std::vector{remote()}; }, as_it_is},
      {"cpu_and_remote", nullptr,
       [] {
         return std::vector{cpu(), remote()};
       },
       every_second_kernel_split},
      {"remote_and_cpu", nullptr,
       [] {
         return std::vector{remote(), cpu()};
       },
       every_second_kernel_split},
      {"two_remotes", nullptr,
       [] {
         return std::vector{remote(), remote()};
       },
       every_second_kernel_split},
  };
  return cases;
}

}  // namespace npusim::test
