// A pointwise kernel whose other operands are all known at load (a batch norm, a bias) joins the contraction before it,
// ahead of other fusions: in a sum of two branches each keeps its own, and fold_batch_norm finds it there.
#include <algorithm>

#include "passes/early_values.h"
#include "passes/fuser.h"

namespace npusim {

void fuse_parameters(Graph& graph, PassContext& context) {
  const std::vector<bool> early = early_values(graph);
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || f.kernel(n).contraction || f.kernel(n).row_dims) continue;
    std::vector<int> reads = f.reads(n);
    const auto late = std::partition(reads.begin(), reads.end(), [&](int v) { return early[static_cast<size_t>(v)]; });
    if (late == reads.begin() || reads.end() - late != 1) continue;
    const int p = f.producer(*late);
    if (p >= 0 && f.kernel(static_cast<size_t>(p)).contraction && f.only_reader(*late, n))
      f.append_to(static_cast<size_t>(p), n, *late);
  }
  f.finish();
}

}  // namespace npusim
