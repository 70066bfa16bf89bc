// How a kernel is laid out over threads before it is printed: merged dimensions, mapping, what is hoisted where.
#pragma once
#include <vector>

#include "kernel/facts/coarse.h"
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
  Coarseness ends;           // which end in 16 bits
  int last_stage = 0;

  // Only of plan_print():
  Schedule schedule;
  LaunchShape launch;
  // Of a schedule with lanes:
  int lane_dim = -1;
  int lane_count = 1;             // fewer than the schedule's where the dimension is shorter
  std::vector<bool> lane_varies;  // by expression: differs from lane to lane
  std::vector<bool> word_loads;   // by expression: a load that is a word
  std::vector<bool> word_stores;  // by store
  int kept_words = 0;             // words that a thread has of its row and keeps; 0: it reads them again each time

  // Of a thread's steps along the dimension.
  int64_t steps_along(size_t d) const {
    const int lanes = static_cast<int>(d) == lane_dim ? schedule.lanes : 1;
    return (kernel.space[d] + lanes - 1) / lanes;
  }
  size_t outer() const { return kernel.space.size() - static_cast<size_t>(kernel.row_dims); }
};

// All that does not depend on the schedule; the points are those of the row's beginning.
PrintPlan plan_kernel(const Kernel& kernel);
// Of a kernel with its dimensions as they are, whose points are somebody else's to share out.
PrintPlan plan_points(const Kernel& kernel);
PrintPlan plan_print(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);

}  // namespace npusim
