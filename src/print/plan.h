// How a kernel is laid out over threads before it is printed: merged dimensions, mapping, what is hoisted where.
#pragma once
#include <optional>
#include <vector>

#include "kernel/kernel.h"
#include "print/dialect.h"
#include "print/print.h"

namespace npusim {

enum class RowLoop : uint8_t {
  none,    // no reductions: every point is a thread's
  thread,  // one thread walks the row
  warp,    // the lanes of one warp stride along it
  block,   // the threads of one block do
};

struct Range {
  int64_t low = 0, high = 0;
};

struct PrintPlan {
  // The kernel over the fewest dimensions: those of extent 1 are gone, neighbours that every access runs through like
  // one are one.
  Kernel kernel;
  RowLoop row = RowLoop::none;
  std::vector<bool> serial;  // by dimension: walked by each thread, since accumulating stores could meet along it
  int64_t points = 0;        // product of the parallel dimensions: rows, or points of the space
  int64_t row_length = 1;
  LaunchShape launch;
  bool wide = false;  // index arithmetic needs 64 bits

  // By expression.
  std::vector<bool> live;                   // a store or a trap depends on it
  std::vector<int> stage;                   // how many reductions it waits for
  std::vector<bool> varies;                 // along the row
  std::vector<std::optional<Range>> range;  // of i64 expressions, where it is known
  std::vector<bool> narrow;                 // i64 expressions that are computed in 32 bits
  int last_stage = 0;

  size_t outer() const { return kernel.space.size() - static_cast<size_t>(kernel.row_dims); }
};

PrintPlan plan_print(const Kernel& kernel, const Dialect& dialect);

// Expressions that a store or a trap depends on.
std::vector<bool> live_expressions(const Kernel& kernel);
// Whether the expression itself can trap: a load with index terms, a division not by a nonzero constant.
bool can_trap(const Kernel& kernel, const Expr& e);
// Whether along every dimension accumulating stores could meet at one address.
std::vector<bool> colliding_dims(const Kernel& kernel, const Access& access);

// Extremes of offset + Σ coeffs·index over the space.
Range range_of(int64_t offset, const std::vector<int64_t>& coeffs, const std::vector<int64_t>& space);

}  // namespace npusim
