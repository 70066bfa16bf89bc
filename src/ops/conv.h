// Convolutions as one contraction kernel; image coordinates that leave the image are its padding.
#pragma once
#include "ops/contract.h"

namespace npusim {

// What a convolution attribute list says, one number per spatial dimension.
struct ConvSpec {
  std::vector<int64_t> stride, dilation;
  std::vector<int64_t> before, after;  // padding; may be negative (cropping)
  std::vector<int64_t> output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

// Operands: image [n, C, spatial…] or [C, spatial…], weight [O, C/groups, kernel…] ([C, O/groups, kernel…] when
// transposed), bias [O] or -1.
Shape conv_shape(const OpCall& call, const ConvSpec& spec, const Shape& image, const Shape& weight);
void lower_conv(Lowering& lowering, std::string name, ConvSpec spec, int image, int weight, int bias, int result);

}  // namespace npusim
