// How many keys an attention has, where that is known only when it runs.
#pragma once
#include "kernel/kernel.h"

namespace npusim {

// Of `outer`, whose attention's score says the number of its keys: a kernel over the score's space, with the arguments
// that `outer` reads and without a contraction, whose one store's expression is that number at any key. It names no
// argument to store it in.
Kernel key_count(const Kernel& outer);
Kernel stored_count(const Kernel& outer);  // in an argument of one element

}  // namespace npusim
