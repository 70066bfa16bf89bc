// What one launch of some steps does, and the ways to do it.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/codegen/products/pair.h"
#include "program/program.h"

namespace npusim::cuda::codegen::choose {

struct LaunchWork {
  std::vector<int32_t> args;     // buffers
  std::vector<int32_t> kernels;  // positions in the program
  std::vector<bool> ahead;       // by argument, of equal kernels by that of each: in memory before the method runs
  std::optional<products::Pair> pair;  // what two products are together
  bool columns = false;                // products of the same rows that differ
};

std::span<const Step> steps_of(const Sequence& sequence, const Launch& launch);
// `prepared`: what recipes make is there.
LaunchWork work_of(const Program& program, std::span<const Step> steps, const Features& features, bool prepared);
// At most so many, the likeliest to be the fastest first; there always is one.
std::vector<Made> make_ways(const Program& program, const LaunchWork& work, const Features& features, size_t most);

}  // namespace npusim::cuda::codegen::choose
