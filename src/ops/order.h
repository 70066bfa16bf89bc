// Orders along a dimension, as ATen has them: stable, NaN last, or first when descending.
#pragma once
#include "ops/op.h"

namespace npusim {

struct Order {
  size_t dim = 0;
  bool descending = false;
  int64_t kept = 0;   // how many
  int64_t first = 0;  // from this one on
};

// `positions` (int64, or what is converted from it; `kept` along the dimension) receives where in `self`, of rank 1 at
// least, they stand.
void lower_order(Lowering& lowering, int self, const Order& order, int positions);
// `values` receives the elements of `self` that stand there along dimension `dim`.
void lower_values(Lowering& lowering, int self, size_t dim, int positions, int values);

}  // namespace npusim
