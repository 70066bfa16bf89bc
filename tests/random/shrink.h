// The smallest program that still fails the same way.
#pragma once
#include <cstdint>

#include "random/run.h"

namespace npusim::test {

struct Case {
  Graph graph;
  uint64_t values = 1;
  std::vector<Way> ways;  // one, once it is known which fails
};

// check_graph_runs in a child process.
Outcome check_case(const Case& one);

// Leaves out outputs and calls, puts inputs in the place of results, makes extents smaller, values plainer and the way
// plainer, for as long as the outcome stays what it was and fewer than `tries` were made.
Case shrink(Case failing, const Outcome& outcome, int tries);

}  // namespace npusim::test
