// The GPU alone, beside the CPU, which runs kernel IR in the same program, and as two devices of one program.
#include "backends/cuda/gpu.h"
#include "conformance/devices.h"
#include "kernel/facts/fourier.h"
#include "kernel/facts/order.h"
#include "kernel/fuse/unfuse.h"

namespace npusim::test {
namespace {

std::shared_ptr<Backend> cpu() { return open_backend("cpu"); }

// The steps of methods that the target wants in parts, in a program that was not compiled for it: with memory between
// them at the end of the arena.
Program in_parts(Program program) {
  for (Method& method : program.methods) {
    const std::vector<Step> steps = std::move(method.steps);
    method.steps.clear();
    for (const Step& step : steps) {
      const Unfused unfused =
          step.is_transfer() ? Unfused{} : unfuse(program.kernels[static_cast<size_t>(step.kernel)]);
      if (unfused.steps.size() < 2) {
        method.steps.push_back(step);
        continue;
      }
      std::vector<int32_t> buffers = step.buffers;
      for (const Unfused::Scratch& scratch : unfused.scratch) {
        Buffer between;
        between.name = "between";
        between.type = {scratch.dtype, {scratch.elements}};
        between.offset = (method.arenas[0].bytes + 255) / 256 * 256;
        method.arenas[0].bytes = between.offset + stored_bytes(between);
        buffers.push_back(static_cast<int32_t>(program.buffers.size()));
        program.buffers.push_back(std::move(between));
      }
      for (const BoundKernel& part : unfused.steps) {
        method.steps.push_back({static_cast<int32_t>(program.kernels.size()), {}, step.device, step.origins});
        for (int value : part.values) method.steps.back().buffers.push_back(buffers[static_cast<size_t>(value)]);
        program.kernels.push_back(part.kernel);
      }
    }
  }
  return program;
}

// A launch for each kernel step of the devices from `first` to `last`, in a program that need not be compiled for them.
Program planned(Program program, int32_t first, int32_t last) {
  const auto add_launches = [&](Sequence& sequence) {
    sequence.launches.clear();
    for (size_t i = 0; i < sequence.steps.size(); ++i) {
      const Step& step = sequence.steps[i];
      if (step.is_transfer() || step.device < first || step.device > last) continue;
      Launch& launch = sequence.launches.emplace_back();
      launch.first = static_cast<int32_t>(i);
      launch.count = 1;
    }
  };
  add_launches(program.recipes);
  for (Method& method : program.methods) add_launches(method);
  gpu_target().plan(program);
  return program;
}

Program for_gpu(const Program& program) { return program.code.empty() ? planned(in_parts(program), 0, 0) : program; }
Program for_gpu_and_cpu(const Program& program) { return every_second_kernel_split(for_gpu(program)); }

// Without its launches, which it gets again for both.
Program for_two_gpus(Program program) {
  program.code.clear();
  program.recipes.launches.clear();
  for (Method& method : program.methods) method.launches.clear();
  return planned(every_second_kernel_split(in_parts(std::move(program))), 0, 1);
}

// Compiled for the CPU, a program may have kernels that the GPU runs in parts: they stay.
Program for_cpu_and_gpu(const Program& program) {
  return planned(split_program(program,
                               [](const Kernel& kernel, size_t step) {
                                 const bool attention =
                                     kernel.contraction && kernel.contraction->kind == ContractionKind::attention;
                                 return step % 2 == 1 && !attention && !has_order(kernel) && !has_fourier(kernel) &&
                                        gpu_target().refuse(kernel).empty();
                               }),
                 1, 1);
}

}  // namespace

const std::vector<DeviceCase>& device_cases() {
  static const std::vector<DeviceCase> cases = {
      {"cuda", &gpu_target(), [] { return std::vector{gpu()}; }, for_gpu},
      {"cuda_and_cpu", &gpu_target(),
       [] {
         return std::vector{gpu(), cpu()};
       },
       for_gpu_and_cpu},
      {"cpu_and_cuda", nullptr,
       [] {
         return std::vector{cpu(), gpu()};
       },
       for_cpu_and_gpu},
      {"two_of_cuda", &gpu_target(),
       [] {
         return std::vector{gpu(), gpu()};
       },
       for_two_gpus},
  };
  return cases;
}

}  // namespace npusim::test
