// Executing printed kernels.
#include "run_printed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "print/print.h"

namespace npusim {

Schedule metal_schedule(const PrintSample& sample) {
  return sample.schedule ? *sample.schedule : choose_schedule(sample.kernel, metal_dialect);
}

mslx::Library compile_samples(const std::vector<PrintSample>& samples, const std::string& flags) {
  std::vector<Scheduled> kernels;
  for (const PrintSample& sample : samples) kernels.push_back({&sample.kernel, metal_schedule(sample)});
  return mslx::compile_file(mslx::write_temporary("samples.metal", print_kernels(kernels, metal_dialect)), flags);
}

int run_sample(const PrintSample& sample, const mslx::Library& library, const mslx::Options& options,
               std::vector<HostTensor>& memory) {
  memory = sample_memory(sample);
  std::vector<std::unique_ptr<mslx::GuardedBuffer>> buffers;
  mslx::Bindings bindings;
  for (size_t i = 0; i < memory.size(); ++i) {
    const int shared = sample.kernel.args[i].updates;
    if (shared < 0) {
      buffers.push_back(std::make_unique<mslx::GuardedBuffer>(memory[i].data.size(), 4));
      std::copy(memory[i].data.begin(), memory[i].data.end(), buffers[i]->as<std::byte>());
    } else {
      buffers.push_back(nullptr);
    }
    bindings.buffer(static_cast<int>(i),
                    shared < 0 ? buffers[i]->data() : buffers[static_cast<size_t>(shared)]->data());
  }
  mslx::GuardedBuffer trap(4, 4);
  *trap.as<int>() = 0;
  if (takes_trap(sample.kernel)) bindings.buffer(static_cast<int>(memory.size()), trap.data());
  const LaunchShape launch = launch_of(sample.kernel, metal_dialect, metal_schedule(sample));
  const mslx::Result result =
      mslx::dispatch_groups(library.find(kernel_name(sample.kernel)), {static_cast<unsigned>(launch.blocks), 1, 1},
                            {static_cast<unsigned>(launch.threads), 1, 1}, bindings, options);
  EXPECT_TRUE(result.ok()) << sample.name << ": " << result.error;
  for (size_t i = 0; i < memory.size(); ++i)
    std::copy_n(static_cast<const std::byte*>(bindings.buffers[i]), memory[i].data.size(), memory[i].data.begin());
  return *trap.as<int>();
}

}  // namespace npusim
