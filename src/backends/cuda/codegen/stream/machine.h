// What every method's text begins with: the ring of pieces, the barrier of all blocks, tensor cores on a piece.
#pragma once
#include <string_view>

namespace npusim::cuda::codegen::stream {

std::string_view stream_machine();
// And behind it, what fills the ring.
std::string_view stream_feeder();

}  // namespace npusim::cuda::codegen::stream
