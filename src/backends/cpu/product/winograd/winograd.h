// 3x3 convolutions as 36 smaller products: Winograd's F(4x4, 3x3).
//
// Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2016: a tile of 4x4 outputs is
// Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A of the 6x6 inputs d it sees and the filter g. Summed over channels, the products of one
// of the 36 positions over all tiles are a matrix product: 36 multiplications for 16 outputs instead of 144.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::winograd {

// Declines unless the image is channels last, the filter 3x3 with stride 1, a Finish ends the kernel and the shape is
// worth it: the choice is the same on every machine. Behind it stands oneDNN's direct sum; it takes over where a result
// is not finite, since an infinity or a NaN would reach all outputs of its tile.
Answer make_winograd_step(Problem& problem);

}  // namespace npusim::cpu::product::winograd
