// What a device makes of each launch of a program, beside what the launch's steps mean.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "npusim/session.h"

namespace npusim {

// What is left of sums that cancel beside the largest of what is summed, at most, for a difference to be rounding.
inline constexpr double cancelled = 1e-4;

// Noise of float32 operands, some roundings of each: what sums in another order come to.
void add_noise(DType dtype, std::vector<std::byte>& bytes);

// Steps that are executed at once: a launch, or a step alone.
struct ExecutedSteps {
  size_t first = 0, count = 1;
  double distance = 0;       // the largest relative L2 of what they leave, beside the interpreter on the same memory
  double rounding = 0;       // what its dtype and sums in another order may make of that
  std::string how;           // the device runs it
  std::string problem = {};  // what the interpreter says against it
};

// Runs the first method's steps one by one as the session runs them, on the inputs that its last run had: each launch
// reads what the program computed before it, in the dtypes and the layout that it is stored in, and so does the
// interpreter. Transfers and operators of the plugin are run and not compared. `before` is called before each.
std::vector<ExecutedSteps> compare_launches(Session& session, const std::function<void(size_t step)>& before);

}  // namespace npusim
