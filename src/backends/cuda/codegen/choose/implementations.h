// The implementations of launches for this device, in the order in which they are asked.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/codegen/choose/analysis.h"
#include "backends/cuda/codegen/generated.h"
#include "backends/cuda/codegen/products/pair.h"
#include "codegen/target.h"

namespace npusim::cuda::codegen::choose {

enum class By : uint8_t {
  pair,
  columns,
  side_by_side,
  attention,
  dots,
  patches,
  depthwise,
  tiles,
  combined_lines,
  ordered_rows,
  scanned_rows,
  pairs,
  rows,
};

// What one launch of some steps is, decided once: which of the implementations makes it, and what that has found.
struct StepsPlan : LaunchPlan {
  size_t implementation = 0;           // its number in the list
  Analysis known;                      // of the first step's kernel
  std::optional<products::Pair> pair;  // of two products, of which the second reads what the first makes
  std::vector<Product> columns;        // of products of the same rows that differ, by step
  std::vector<Declined> declined;      // those asked before
  By by() const;                       // which that is
};

// The first so many of these steps, which follow each other, that are one launch.
Group group_steps(std::span<const GroupStep> steps, const Features& features);
// One kernel, or so many copies of it, each of memory of its own, of which several_at_once() must allow several.
StepsPlan plan_kernel(const Kernel& kernel, Analysis known, int copies, const Features& features);

// A launch that is to be made of kernels, by step. `ahead`: by argument of all of them, or of equal ones by that of
// each: what is in memory before the method runs.
struct LaunchKernels {
  std::vector<const Kernel*> kernels;
  const StepsPlan* plan = nullptr;
  std::vector<bool> ahead;
};
// At most so many candidates, at least one, the one expected to be the fastest first.
std::vector<GeneratedKernel> make_candidates(const LaunchKernels& launch, const Features& features, size_t most);
GeneratedKernel make_kernel(const Kernel& kernel, const Features& features, const std::vector<bool>& ahead,
                            int copies = 1);

// As rows and points, where a contraction is spelled out as rows that sum; the schedule, if not given, is chosen.
GeneratedKernel make_rows(const Kernel& kernel, const std::vector<bool>& ahead, const Features& features,
                          const std::optional<Schedule>& schedule = {});
// Whether a kernel without a contraction is made otherwise than as it is printed, and a product otherwise than as rows.
bool has_own_text(const Kernel& kernel, const Features& features);
bool has_own_text(const Kernel& kernel, const Analysis& known, const Features& features);
// Whether one launch can make several kernels like this one, each of memory of its own.
bool several_at_once(const Kernel& kernel, const Analysis& known, const Features& features);

}  // namespace npusim::cuda::codegen::choose
