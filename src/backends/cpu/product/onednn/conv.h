// Convolutions through oneDNN.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu::product::onednn {

// Both decline what is no convolution oneDNN takes: it is then computed as a matmul.
// oneDNN writes the result, its epilogue applied.
Answer make_onednn_conv_step(Problem& problem);
// oneDNN writes sums with channels last into scratch, and loops end them wherever they go: an epilogue it does not
// know, a result in another order than channels last.
Answer make_onednn_sums_step(Problem& problem);

}  // namespace npusim::cpu::product::onednn
