// What the expressions of a kernel depend on, and who depends on them.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

using DimSet = uint64_t;  // bit d: dimension d of the space, of which there are at most max_dims

inline DimSet dim_bit(size_t d) { return DimSet{1} << d; }
DimSet row_of(const Kernel& kernel);

struct Dependence {
  // By expression:
  std::vector<DimSet> dims;  // along which it varies
  std::vector<int> stage;    // how many reductions it waits for
};

Dependence dependence_of(const Kernel& kernel);
// The dimensions along which the access reaches another element, or none.
DimSet dims_of(const Access& access, const Dependence& dependence);

// Whether the expression itself can trap: a load with index terms, a division not by a nonzero constant.
bool can_trap(const Kernel& kernel, const Expr& e);
// Expressions that a store depends on or, with `traps`, a trap.
std::vector<bool> live_expressions(const Kernel& kernel, bool traps);

}  // namespace npusim
