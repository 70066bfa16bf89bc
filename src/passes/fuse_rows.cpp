// Reductions along rows and the pointwise work before and after them become one row kernel (RMSNorm, softmax, …).
#include "passes/fuser.h"

namespace npusim {

void fuse_rows(Graph& graph, PassContext& context) {
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || f.kernel(n).contraction) continue;
    f.inline_producers(n, true, [&](size_t producer, int value) {
      const Kernel& source = f.kernel(producer);
      return !source.contraction && (source.row_dims > 0 || f.kernel(n).row_dims > 0) &&
             (f.only_reader(value, n) || f.widens_for_readers(producer));
    });
  }
  f.finish();
}

}  // namespace npusim
