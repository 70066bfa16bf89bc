// One element of each row's order, found by its digits: the same kernel for devices without a sort of their own.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim {

// Of a kernel that orders rows and stores one position of each. An element's key is a whole number that has the order
// of the elements: the bits of a float's magnitude with its sign. Digit by digit of 256 values, the highest first, two
// kernels count what digits the elements have whose higher ones are those found so far, and take the digit under which
// the position falls; the digits of their indices order equal elements. Of n elements that is a constant number of
// reads of each, where merges take log² n.
Unfused select_digits(const Kernel& kernel);

}  // namespace npusim
