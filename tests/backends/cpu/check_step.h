// Runs a kernel as a step that may decline it, and with the reference evaluator, on the same random arguments.
#pragma once
#include <memory>

#include "backends/cpu/loops/check.h"
#include "backends/cpu/step.h"
#include "base/threads.h"

namespace npusim::cpu {

// Whether make(kernel, bindings, context) takes the kernel; then its step has run on `arguments`, without a library's
// context.
template <typename Make>
bool run_step(const Kernel& kernel, std::vector<std::vector<std::byte>>& arguments, int threads, Make&& make) {
  std::vector<Binding> bindings;
  for (auto& argument : arguments) bindings.push_back({argument.data(), false});
  const ThreadCount limit(threads);
  Context context;
  context.threads = threads;
  const std::unique_ptr<BoundStep> step = make(kernel, bindings, context);
  if (!step) return false;
  std::vector<std::byte> scratch(step->scratch_bytes() + 64, std::byte{0xff});
  step->set_scratch(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
  step->run();
  return true;
}

// The same; its results are checked.
template <typename Make>
bool step_is_as_interpreted(const Kernel& kernel, const Check& check, int threads, Make&& make) {
  const auto problems = check_kernel(kernel);
  EXPECT_TRUE(problems.empty()) << problems[0] << "\n" << to_text(kernel);
  const Memory start = random_arguments(kernel, check);
  Memory expected = start, actual = start;
  evaluate(kernel, pointers(kernel, expected), false);
  if (!run_step(kernel, actual, threads, make)) return false;
  compare(kernel, expected, actual, check);
  return true;
}

}  // namespace npusim::cpu
