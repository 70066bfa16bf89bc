// The device text that is written by hand: the .cuh files of this folder.
#pragma once
#include <string_view>

#include "print/dialect.h"

namespace npusim::cuda::codegen::device {

// cuda_dialect, in which kernels are printed, with what the texts of this backend call besides: for with_helpers().
const Dialect& device_dialect();

// Of a method that is one launch, written for the numbers of constants.cuh: the ring of pieces, the barrier of all
// blocks and tensor cores on a piece; what fills the ring; and behind the method's own functions what a launch begins
// with, and what the warps do that do not compute.
std::string_view stream_machine();
std::string_view stream_producer();
std::string_view stream_entry();

}  // namespace npusim::cuda::codegen::device
