// What one launch of a program's steps does: its plan, its arguments, and what of them is there before.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/codegen/choose/implementations.h"
#include "program/program.h"

namespace npusim::cuda::codegen::choose {

// Of steps that are a launch of a program; null: a group would be of others.
std::shared_ptr<const StepsPlan> plan_steps(const Program& program, std::span<const Step> steps,
                                            const Features& features);

struct LaunchWork {
  LaunchKernels made_of;
  std::vector<int32_t> args;                     // buffers
  std::vector<int32_t> kernels;                  // positions in the program
  std::vector<std::pair<size_t, size_t>> given;  // by argument: of which step, and of its arguments
};

// `prepared`: what recipes make is there.
LaunchWork work_of(const Program& program, std::span<const Step> steps, const StepsPlan& plan, bool prepared);

}  // namespace npusim::cuda::codegen::choose
