// Copies that only move elements disappear into the strides of their readers.
#include "passes/fuser.h"

namespace npusim {

void fold_views(Graph& graph, PassContext& context) {
  Fuser f(graph, context);
  for (size_t n = 0; n < f.size(); ++n) {
    if (!is_copy(f.kernel(n))) continue;
    const int value = f.writes(n)[0];
    for (size_t reader : f.readers(value)) f.inline_into(n, reader, value, false);
  }
  f.finish();
}

}  // namespace npusim
