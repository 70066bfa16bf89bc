// How a kernel is laid out over threads before it is printed: merged dimensions, mapping, what is hoisted where.
#pragma once
#include <vector>

#include "kernel/kernel.h"
#include "print/dialect.h"
#include "print/print.h"
#include "print/schedule.h"

namespace npusim {

struct PrintPlan {
  // The kernel over the fewest dimensions: those of extent 1 are gone, neighbours that every access runs through like
  // one are one.
  Kernel kernel;
  std::vector<bool> serial;  // by dimension: walked by each thread, since accumulating stores could meet along it
  int64_t points = 0;        // product of the parallel dimensions: rows, or points of the space
  int64_t row_length = 1;
  bool wide = false;  // index arithmetic needs 64 bits

  // By expression.
  std::vector<bool> live;    // a store or a trap depends on it
  std::vector<int> stage;    // how many reductions it waits for
  std::vector<bool> varies;  // along the row
  std::vector<bool> narrow;  // i64 expressions that are computed in 32 bits
  int last_stage = 0;

  // Only of plan_print():
  Schedule schedule;
  LaunchShape launch;

  size_t outer() const { return kernel.space.size() - static_cast<size_t>(kernel.row_dims); }
};

// All that does not depend on the schedule; the points are those of the row's beginning.
PrintPlan plan_kernel(const Kernel& kernel);
// Of a kernel with its dimensions as they are, whose points are somebody else's to share out.
PrintPlan plan_points(const Kernel& kernel);
PrintPlan plan_print(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);

}  // namespace npusim
