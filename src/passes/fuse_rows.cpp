// Reductions along rows and the pointwise work before and after them become one row kernel (RMSNorm, softmax, …).
#include "passes/fuser.h"

namespace npusim {

void fuse_rows(Graph& graph, PassContext& context) {
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || f.kernel(n).contraction) continue;
    bool changed = true;
    while (changed) {
      changed = false;
      for (int value : f.reads(n)) {
        const int p = f.producer(value);
        if (p < 0) continue;
        const auto producer = static_cast<size_t>(p);
        const Kernel& source = f.kernel(producer);
        if (source.contraction || (source.row_dims == 0 && f.kernel(n).row_dims == 0)) continue;
        if (!f.only_reader(value, n)) continue;
        if (f.inline_into(producer, n, value, true)) {
          changed = true;
          break;
        }
      }
    }
  }
  f.finish();
}

}  // namespace npusim
