// Finding the driver and telling its errors.
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace npusim::cuda {
namespace {

constexpr const char* variable = "NPUSIM_CUDA_DRIVER";
constexpr const char* usual_library = "libcuda.so.1";

struct Search {
  Driver driver;
  std::string problem;
};

// The functions by their names, of the version that takes 64-bit sizes.
std::string find_functions(void* library, Driver& d) {
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  };
  find("cuInit", d.init);
  find("cuDriverGetVersion", d.version);
  find("cuGetErrorName", d.error_name);
  find("cuGetErrorString", d.error_string);
  find("cuDeviceGetCount", d.device_count);
  find("cuDeviceGet", d.device);
  find("cuDeviceGetName", d.device_name);
  find("cuDeviceGetAttribute", d.device_attribute);
  find("cuDeviceTotalMem_v2", d.device_memory);
  find("cuDevicePrimaryCtxRetain", d.retain_context);
  find("cuDevicePrimaryCtxRelease_v2", d.release_context);
  find("cuCtxPushCurrent_v2", d.push_context);
  find("cuCtxPopCurrent_v2", d.pop_context);
  find("cuMemGetInfo_v2", d.memory_info);
  find("cuMemAlloc_v2", d.allocate);
  find("cuMemFree_v2", d.release);
  find("cuMemAllocHost_v2", d.allocate_host);
  find("cuMemFreeHost", d.release_host);
  find("cuMemcpyHtoDAsync_v2", d.to_device);
  find("cuMemcpyDtoHAsync_v2", d.to_host);
  find("cuMemcpyDtoDAsync_v2", d.copy);
  find("cuMemsetD8Async", d.set_bytes);
  find("cuStreamCreate", d.create_stream);
  find("cuStreamDestroy_v2", d.destroy_stream);
  find("cuStreamSynchronize", d.wait_stream);
  find("cuEventCreate", d.create_event);
  find("cuEventDestroy_v2", d.destroy_event);
  find("cuEventRecord", d.record_event);
  find("cuEventSynchronize", d.wait_event);
  find("cuStreamWaitEvent", d.follow_event);
  find("cuEventRecordWithFlags", d.record_event_with);
  find("cuEventElapsedTime", d.elapsed);
  find("cuModuleLoadDataEx", d.load_module);
  find("cuModuleUnload", d.unload_module);
  find("cuModuleGetFunction", d.find_function);
  find("cuFuncGetAttribute", d.function_attribute);
  find("cuFuncSetAttribute", d.set_function_attribute);
  find("cuLaunchKernel", d.launch);
  find("cuLaunchCooperativeKernel", d.launch_together);
  find("cuOccupancyMaxActiveBlocksPerMultiprocessor", d.blocks_at_once);
  find("cuStreamBeginCapture_v2", d.begin_capture);
  find("cuStreamEndCapture", d.end_capture);
  find("cuGraphInstantiateWithFlags", d.instantiate);
  find("cuGraphUpload", d.upload_graph);
  find("cuGraphDestroy", d.destroy_graph);
  find("cuGraphExecDestroy", d.destroy_graph_exec);
  find("cuGraphLaunch", d.launch_graph);
  d.parameter = reinterpret_cast<decltype(d.parameter)>(dlsym(library, "cuFuncGetParamInfo"));
  d.launch_with = reinterpret_cast<decltype(d.launch_with)>(dlsym(library, "cuLaunchKernelEx"));
  return missing;
}

Search search() {
  const char* given = std::getenv(variable);
  const std::string name = given && *given ? given : usual_library;
  if (const std::string what = no_file_at(name); !what.empty())
    return {{}, fmt::format("{}: {}: expected the NVIDIA driver's library, found {}", variable, name, what)};
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {{}, fmt::format("no NVIDIA driver: looked for {} ({}; {} may name it)", name, dlerror(), variable)};
  Search found;
  if (const std::string missing = find_functions(library, found.driver); !missing.empty())
    return {{}, fmt::format("{}: expected a driver of CUDA 12 or later, found none of its {}", name, missing)};
  if (const Status status = found.driver.init(0); status != 0) {
    const char* text = nullptr;
    if (found.driver.error_name(status, &text) != 0 || !text) text = "unknown";
    return {{}, fmt::format("{}: cuInit: {} ({})", name, text, status)};
  }
  return found;
}

const Search& found() {
  static const Search result = search();
  return result;
}

}  // namespace

const Driver& driver() {
  if (!found().problem.empty()) fail(ErrorKind::device, "cuda: {}", found().problem);
  return found().driver;
}

std::string status_text(const char* call, Status status) {
  const char *name = nullptr, *text = nullptr;
  const Driver& d = found().driver;
  if (d.error_name(status, &name) != 0 || !name) name = "unknown";
  if (d.error_string(status, &text) != 0 || !text) text = "unknown";
  return fmt::format("{}: {} ({}), {}", call, name, status, text);
}

void check(Status status, const char* call) {
  if (status != 0) fail(ErrorKind::device, "cuda: {}", status_text(call, status));
}

}  // namespace npusim::cuda
