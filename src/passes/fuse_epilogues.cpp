// A pointwise kernel that reads a contraction's result point for point becomes the contraction's epilogue.
#include "passes/fuser.h"

namespace npusim {

void fuse_epilogues(Graph& graph, PassContext& context) {
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!f.alive(n) || f.kernel(n).contraction || f.kernel(n).row_dims || f.widens_for_readers(n)) continue;
    // The latest contraction among what it reads: its other operands are there by then.
    int best = -1, best_value = -1;
    for (int value : f.reads(n)) {
      const int p = f.producer(value);
      if (p <= best || !f.kernel(static_cast<size_t>(p)).contraction) continue;
      // A result that others need too would be stored beside the epilogue's: no gain, and its rounding would be lost.
      if (f.readers(value).size() != 1 || !f.can_move_to(static_cast<size_t>(p), n)) continue;
      best = p;
      best_value = value;
    }
    if (best >= 0) f.append_to(static_cast<size_t>(best), n, best_value);
  }
  f.finish();
}

}  // namespace npusim
