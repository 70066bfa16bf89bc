// A binary search in memory, spelled out as the expressions of its steps, and found again in a kernel.
#pragma once
#include <functional>
#include <optional>

#include "kernel/builder.h"

namespace npusim {

// The first of `count` positions that is not `before`, where all that are come first; `count` if there is none. It
// compares where ATen does, so that it finds the same in any other order: at the middle of what is left, the later one.
Ex first_not(KernelBuilder& k, int64_t count, const std::function<Ex(Ex position)>& before);

// How many steps that takes.
int search_steps(int64_t count);

// What decides whether an element is before a value: a comparison of the two, or that it does not hold.
struct Before {
  ExprOp op = ExprOp::lt;  // or le
  bool element_first = false;
  bool negated = false;
  bool operator==(const Before&) const = default;
};

struct Search {
  Before before;
  int32_t value = -1;
  Access access;  // to the element; its one term is the position, whose extent is `count`
};
// The search whose result the expression is, if it is one among elements without guards and other terms.
std::optional<Search> search_at(const Kernel& kernel, int32_t expr);

}  // namespace npusim
