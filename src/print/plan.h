// How a kernel is laid out over threads before it is printed: merged dimensions, mapping, what is hoisted where.
#pragma once
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
  std::vector<bool> live;    // a store or a trap depends on it
  std::vector<int> stage;    // how many reductions it waits for
  std::vector<bool> varies;  // along the row
  std::vector<bool> narrow;  // i64 expressions that are computed in 32 bits
  int last_stage = 0;

  size_t outer() const { return kernel.space.size() - static_cast<size_t>(kernel.row_dims); }
};

PrintPlan plan_print(const Kernel& kernel, const Dialect& dialect);

}  // namespace npusim
