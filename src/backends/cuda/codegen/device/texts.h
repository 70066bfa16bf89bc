// The device text that is written by hand: the .cuh files of this folder.
#pragma once
#include <string_view>

#include "print/dialect.h"

namespace npusim::cuda::codegen::device {

// cuda_dialect, in which kernels are printed, with what the texts of this backend call beside: for with_helpers().
const Dialect& device_dialect();

// What every method's text begins with that is one launch: the ring of pieces, the barrier of all blocks, tensor cores
// on a piece. Behind it, what fills the ring. Both are written for the numbers of constants.cuh.
std::string_view stream_machine();
std::string_view stream_feeder();

}  // namespace npusim::cuda::codegen::device
