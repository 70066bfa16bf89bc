// Who finds what.
#include "backends/cuda/codegen/choose/analysis.h"

#include "backends/cuda/codegen/products/depthwise.h"

namespace npusim::cuda::codegen::choose {

Analysis analyse(const Kernel& kernel, plan::Contracted contracted) {
  Analysis a{std::move(contracted), {}, {}, {}};
  a.patches = products::find_patch_conv(kernel, a.contracted, a.no_patches);
  a.no_depthwise = products::no_depthwise(kernel, a.contracted);
  return a;
}

Analysis analyse(const Kernel& kernel) { return analyse(kernel, plan::contracted(kernel)); }

}  // namespace npusim::cuda::codegen::choose
