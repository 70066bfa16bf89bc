// Convolutions through oneDNN.
#pragma once
#include "backends/cpu/product/problem.h"

namespace npusim::cpu {

// Declines what is no convolution oneDNN takes: it is then computed as a matmul.
Answer make_onednn_conv_step(Problem& problem);

}  // namespace npusim::cpu
