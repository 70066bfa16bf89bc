// The same kernel with less of it: dimensions of extent 1, neighbours that are walked as one, what no store needs.
#pragma once
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// These three not for attention, nor for convolutions that are to stay ones: their dimensions are fixed.
//
// Drops the dimensions of extent 1: an index along one is 0, a reduction or scan along a row of one element is that
// element. Gives the old position of each dimension that is left.
std::vector<size_t> drop_unit_dims(Kernel& kernel);
// The dimensions in another order, given by their old positions; those of the row stay the last.
void order_dims(Kernel& kernel, const std::vector<size_t>& order);
// Makes one of neighbours that every access walks through like one, both in the row or neither, without index
// expressions along them. Whether there were any.
bool merge_dims(Kernel& kernel);

// Takes the dimensions of the row away, along which nothing varies.
void cut_row(Kernel& kernel);

// Drops expressions that no store needs, traps among them, and accesses that no expression needs.
void drop_dead(Kernel& kernel);

}  // namespace npusim
