// What a conversion to another dtype would change that is no rounding.
#pragma once
#include <optional>
#include <string>

#include "npusim/tensor.h"

namespace npusim {

// Why `dtype` cannot hold an element as it is, where one of the two types is an integer or a boolean: "element 3 is 300,
// which int8 does not hold". Floats that become floats are rounded.
std::optional<std::string> refuse_integers(const TensorView& from, DType dtype);

}  // namespace npusim
