// Who finds what, by the kind of the contraction.
#include "plan/contracted.h"

namespace npusim::plan {

Contracted contracted(const Kernel& kernel) {
  Contracted c;
  if (!kernel.contraction) return c;
  if (kernel.contraction->kind == ContractionKind::attention) {
    c.no_product = "it is an attention";
    c.axes = attention_axes(kernel);
    if (c.axes)
      c.attention = find_attention(kernel, *c.axes, c.no_attention);
    else
      c.no_attention = "both operands of the score depend on the keys";
    return c;
  }
  c.product = find_product(kernel, c.no_product);
  if (kernel.contraction->kind != ContractionKind::conv) return c;
  c.windows = conv_windows(kernel);
  c.whole_image = c.windows && is_whole(kernel, *c.windows);
  return c;
}

}  // namespace npusim::plan
