// Reductions along rows and the pointwise work before and after them become one row kernel (RMSNorm, softmax, …).
#include "kernel/facts/memory.h"
#include "passes/fuser.h"

namespace npusim {
namespace {

// Stores that happen in index order take no rows before them: whoever runs these one by one would fold each row there,
// alone, where a kernel of rows is shared and takes many at once.
bool takes_rows(const Kernel& k, const Kernel& producer) { return producer.row_dims == 0 || !order_matters(k); }

}  // namespace

void fuse_rows(Graph& graph, PassContext& context) {
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || f.kernel(n).contraction) continue;
    f.inline_producers(n, true, [&](size_t producer, int value) {
      const Kernel& source = f.kernel(producer);
      return !source.contraction && (source.row_dims > 0 || f.kernel(n).row_dims > 0) &&
             takes_rows(f.kernel(n), source) && (f.only_reader(value, n) || f.widens_for_readers(producer));
    });
  }
  f.finish();
}

}  // namespace npusim
