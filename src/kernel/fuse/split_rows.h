// Long rows in pieces: for devices that have more to do at a time than there are rows.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim {

// What a kernel does whose rows are reduced or scanned, in steps: for each reduction and scan that waits for no other,
// then for each that waits for those, and so on, that of every piece of a row, and of the pieces in their order; last
// what is stored, where it varies along the row. A row is at least so many pieces where its dimensions allow it: the
// outer ones whole, the next one in parts of one length, of which the last may be shorter. Sums are of other summands
// than those of a whole row, in an order that is as fixed. No steps: the kernel has no such row, orders, updates or
// combines what it stores, stores some of its results along the row and some not, or could trap by what it does not
// store.
Unfused split_rows(const Kernel& kernel, int64_t pieces);

}  // namespace npusim
