// Kernels that order rows: what they must be, and what they say.
#pragma once
#include <optional>
#include <string>

#include "kernel/kernel.h"

namespace npusim {

// Such a kernel does nothing else, so that each device may have its own implementation: along a row of one dimension,
// the last of the space, it loads an element per point without guards and computed terms, orders the row, and stores
// the indices of all its elements or, by a guard along the row, those of `count` positions from `first` on.  Equal
// elements keep their order, 0 and −0 are equal, and NaN is larger than all numbers.
struct OrderForm {
  const Access* from = nullptr;
  const Access* to = nullptr;  // its guard, if any, is what `first`, `count` and `step` say
  int64_t length = 0;          // of a row
  int64_t first = 0;           // the position in the order that is stored first
  int64_t count = 0;           // how many are stored
  int64_t step = 0;            // elements from one that is stored to the next
  bool descending = false;
};

bool has_order(const Kernel& kernel);
// Of a sound kernel that has an order.
OrderForm order_form(const Kernel& kernel);
// Why a kernel that has an order is not sound; "" if it is.
std::string order_problem(const Kernel& kernel);

}  // namespace npusim
