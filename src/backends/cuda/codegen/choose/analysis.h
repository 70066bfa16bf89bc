// A kernel as all implementations of this device see it: what is known about it, found once.
#pragma once
#include <optional>
#include <string>

#include "backends/cuda/codegen/products/patch.h"
#include "plan/contracted.h"

namespace npusim::cuda::codegen::choose {

struct Analysis {
  plan::Contracted contracted;
  std::optional<products::PatchConv> patches;  // of a convolution
  std::string no_patches, no_depthwise;        // why it is none; "" if it is
};
Analysis analyse(const Kernel& kernel, plan::Contracted contracted);
Analysis analyse(const Kernel& kernel);

}  // namespace npusim::cuda::codegen::choose
