// What is known about the contraction of a kernel, whatever the target: found once, and kept with the plan of a launch.
#pragma once
#include <optional>
#include <string>

#include "kernel/facts/attention_axes.h"
#include "kernel/facts/conv_windows.h"
#include "plan/attention.h"
#include "plan/product.h"

namespace npusim::plan {

// Nothing of a kernel without a contraction.
struct Contracted {
  std::optional<Product> product;             // of a matmul, and of a convolution as one
  std::optional<ConvWindows> windows;         // of a convolution
  bool whole_image = false;                   // and its memory has all of that image
  std::optional<AttentionAxes> axes;          // of an attention; none: both operands of its score depend on the keys
  std::optional<Attention> attention;         // likewise
  std::string no_product = {}, no_attention;  // why there is none; "" where nothing was searched
};
Contracted contracted(const Kernel& kernel);

}  // namespace npusim::plan
