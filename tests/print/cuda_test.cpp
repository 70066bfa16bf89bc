// Printed CUDA kernels on a GPU, through the driver loaded at run time, against evaluate().
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "nvrtc.h"
#include "print/print.h"
#include "samples.h"

namespace npusim {
namespace {

using Pointer = unsigned long long;

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*attribute)(int*, int attribute, int device) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*load_module)(void**, const void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*allocate)(Pointer*, size_t) = nullptr;
  int (*release)(Pointer) = nullptr;
  int (*upload)(Pointer, const void*, size_t) = nullptr;
  int (*download)(void*, Pointer, size_t) = nullptr;
  int (*synchronize)() = nullptr;
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                void* stream, void** arguments, void** extra) = nullptr;
  std::string architecture;  // of the first device; "" without one
};

Driver load_driver() {
  Driver d;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return d;
  bool complete = true;
  auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function;
  };
  find("cuInit", d.init);
  find("cuDeviceGet", d.device);
  find("cuDeviceGetAttribute", d.attribute);
  find("cuDevicePrimaryCtxRetain", d.retain);
  find("cuCtxSetCurrent", d.set_current);
  find("cuModuleLoadData", d.load_module);
  find("cuModuleGetFunction", d.function);
  find("cuMemAlloc_v2", d.allocate);
  find("cuMemFree_v2", d.release);
  find("cuMemcpyHtoD_v2", d.upload);
  find("cuMemcpyDtoH_v2", d.download);
  find("cuCtxSynchronize", d.synchronize);
  find("cuLaunchKernel", d.launch);
  int device = 0, major = 0, minor = 0;
  void* context = nullptr;
  if (!complete || d.init(0) || d.device(&device, 0) || d.retain(&context, device) || d.set_current(context)) return d;
  if (d.attribute(&major, 75, device) || d.attribute(&minor, 76, device)) return d;  // compute capability
  d.architecture = "sm_" + std::to_string(major) + std::to_string(minor);
  return d;
}

const Driver& driver() {
  static const Driver d = load_driver();
  return d;
}

// Runs the sample on copies of its memory; returns the trap word.
int run_sample(const PrintSample& sample, void* loaded, std::vector<HostTensor>& memory) {
  const Driver& d = driver();
  memory = sample_memory(sample);
  std::vector<Pointer> buffers;
  for (size_t i = 0; i < memory.size(); ++i) {
    const int shared = sample.kernel.args[i].updates;
    Pointer buffer = 0;
    if (shared >= 0) {
      buffer = buffers[static_cast<size_t>(shared)];
    } else {
      EXPECT_EQ(d.allocate(&buffer, memory[i].data.size() + 1), 0);
      if (!memory[i].data.empty()) {
        EXPECT_EQ(d.upload(buffer, memory[i].data.data(), memory[i].data.size()), 0);
      }
    }
    buffers.push_back(buffer);
  }
  int code = 0;
  Pointer trap = 0;
  EXPECT_EQ(d.allocate(&trap, sizeof code), 0);
  EXPECT_EQ(d.upload(trap, &code, sizeof code), 0);
  std::vector<void*> arguments;
  for (Pointer& buffer : buffers) arguments.push_back(&buffer);
  arguments.push_back(&trap);
  void* function = nullptr;
  EXPECT_EQ(d.function(&function, loaded, kernel_name(sample.kernel).c_str()), 0) << sample.name;
  const LaunchShape launch = launch_of(sample.kernel, cuda_dialect);
  EXPECT_EQ(d.launch(function, static_cast<unsigned>(launch.blocks), 1, 1, static_cast<unsigned>(launch.threads), 1, 1,
                     0, nullptr, arguments.data(), nullptr),
            0)
      << sample.name;
  EXPECT_EQ(d.synchronize(), 0) << sample.name;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].data.empty()) continue;
    EXPECT_EQ(d.download(memory[i].data.data(), buffers[i], memory[i].data.size()), 0);
  }
  EXPECT_EQ(d.download(&code, trap, sizeof code), 0);
  for (size_t i = 0; i < buffers.size(); ++i)
    if (sample.kernel.args[i].updates < 0) d.release(buffers[i]);
  d.release(trap);
  return code;
}

TEST(PrintCuda, computes_what_evaluate_does) {
  if (driver().architecture.empty()) GTEST_SKIP() << "SKIP: no CUDA device";
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC";
  const std::vector<PrintSample> samples = print_samples();
  std::vector<const Kernel*> kernels;
  for (const PrintSample& sample : samples) kernels.push_back(&sample.kernel);
  const Cubin cubin = compile_cuda(print_kernels(kernels, cuda_dialect), driver().architecture);
  ASSERT_EQ(cubin.problem, "");
  void* loaded = nullptr;
  ASSERT_EQ(driver().load_module(&loaded, cubin.image.data()), 0);
  for (const PrintSample& sample : samples) {
    std::vector<HostTensor> found, again;
    const int code = run_sample(sample, loaded, found);
    if (sample.traps) {
      EXPECT_NE(code, 0) << sample.name;
      continue;
    }
    EXPECT_EQ(code, 0) << sample.name << ": " << trap_message(sample.kernel, code);
    EXPECT_EQ(sample_difference(sample, sample_reference(sample), found), "");
    run_sample(sample, loaded, again);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].data == again[i].data) << sample.name << ": argument " << i << " differs from run to run";
  }
}

}  // namespace
}  // namespace npusim
