// Opening the GPU.
#include "backends/cuda/gpu.h"

#include <cstdlib>

#include "backends/cuda/device.h"
#include "backends/cuda/target.h"
#include "random/place.h"

namespace npusim::test {

std::string why_no_gpu() {
  const DeviceInfo found = cuda::probe_device();
  return found.usable ? "" : found.description;
}

const std::shared_ptr<Backend>& gpu() {
  static const std::shared_ptr<Backend> device = cuda::open_device(0);
  return device;
}

const CodegenTarget& gpu_target() {
  static const auto target = [] {
    if (const char* given = std::getenv("NPUSIM_TEST_CUDA")) return cuda::target().for_architectures(given);
    const std::string text = gpu()->description();  // "NVIDIA H200, sm_90, 139.8 GiB"
    const size_t begin = text.find("sm_");
    return cuda::target().for_architectures(text.substr(begin, text.find(',', begin) - begin));
  }();
  return *target;
}

Place open_place() { return {&gpu_target(), {gpu()}}; }

}  // namespace npusim::test
