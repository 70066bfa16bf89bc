// Stores that combine with what is there, in pieces: for devices that have more to do at a time than elements that such
// stores keep apart.
#pragma once
#include "kernel/fuse/unfuse.h"

namespace npusim {

// What a kernel does whose one store combines with what is there, in three steps: a result of its own for each of so
// many pieces of the longest dimension along which points may meet, which begins as what changes nothing; what each
// piece stores there, in index order; and the results of all pieces in their order with what is there. Results of
// 16-bit floats are float32 until then. No steps: the kernel has no such store, no such dimension, elements of booleans
// or narrow integers whose least or largest is computed, or products of floats.
Unfused split_combining(const Kernel& kernel, int64_t pieces);

// The dimension that split_combining() takes, -1: none.
int dim_of_combining(const Kernel& kernel);

}  // namespace npusim
