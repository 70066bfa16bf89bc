// Indices as their caller gave them, for messages.
#pragma once
#include "kernel/kernel.h"

namespace npusim {

// Of a term that is i < 0 ? i + extent : i, in which negative indices count from the end: the extent. Else 0.
int64_t added_to_negative(const Kernel& kernel, const IndexTerm& term);

// What is outside an extent: who gave an index that is below 0 still gave one that is smaller by what was added.
inline int64_t index_as_given(int64_t value, int64_t added) { return value < 0 ? value - added : value; }

}  // namespace npusim
