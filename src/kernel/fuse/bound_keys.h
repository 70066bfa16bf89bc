// Attention over the keys up to a position that it loads.
#pragma once
#include <memory>

#include "kernel/kernel.h"

namespace npusim {

// An attention whose score is −inf, or NaN where the product is no finite number, for every key behind the element of
// argument `position`: the same with that many keys and one more, and without the mask. nullptr where the score is not
// shown to be so. The two differ where keys or values behind the position are not finite.
std::shared_ptr<const Kernel> bound_keys(const Kernel& attention, int position);

}  // namespace npusim
