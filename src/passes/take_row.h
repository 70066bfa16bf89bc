// One row of an output, and no more than that row of what is computed for it alone.
#pragma once
#include "graph/graph.h"
#include "kernel/fuse/one_row.h"

namespace npusim {

// Of a graph of kernels: the output becomes one row of what it is, the row that `index`, an input of one integer,
// names. Kernels that only this row asks for compute theirs alone; out of what others ask for, and of what has no rows,
// it is taken. Whether the output's own kernel computes one row; where it does not the graph is left half made.
bool take_row(Graph& graph, size_t output, const Rows& rows, ValueId index);

}  // namespace npusim
