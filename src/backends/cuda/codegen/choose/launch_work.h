// What one launch of some steps does, decided once, and the ways to do it.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/codegen/products/pair.h"
#include "codegen/target.h"
#include "program/program.h"

namespace npusim::cuda::codegen::choose {

struct StepsPlan : LaunchPlan {
  enum class Kind : uint8_t {
    equal,    // one kernel, or copies of one that have nothing to do with each other
    pair,     // two products, of which the second reads what the first makes
    columns,  // products of the same rows that differ
    beside,   // kernels computed point by point that have nothing to do with each other
  };
  Kind kind = Kind::equal;
  std::optional<products::Pair> pair = {};
};
// Of these steps, which follow each other, the first so many.
Group group_steps(std::span<const GroupStep> steps, const Features& features);
// Of steps that are a launch of a program; null: a group would be of others.
std::shared_ptr<const StepsPlan> plan_steps(const Program& program, std::span<const Step> steps,
                                            const Features& features);

struct LaunchWork {
  const StepsPlan* plan = nullptr;
  std::vector<int32_t> args;                     // buffers
  std::vector<int32_t> kernels;                  // positions in the program
  std::vector<std::pair<size_t, size_t>> given;  // by argument: of which step, and of its arguments
  std::vector<bool> ahead;  // by argument, of equal kernels by that of each: in memory before the method runs
};

std::span<const Step> steps_of(const Sequence& sequence, const Launch& launch);
// `prepared`: what recipes make is there.
LaunchWork work_of(const Program& program, std::span<const Step> steps, const StepsPlan& plan, bool prepared);
// At most so many, the likeliest to be the fastest first; there always is one.
std::vector<Made> make_ways(const Program& program, const LaunchWork& work, const Features& features, size_t most);

}  // namespace npusim::cuda::codegen::choose
