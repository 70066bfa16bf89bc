// Removal and merging of dimensions.
#include "backends/cpu/loops/rewrite/collapse.h"

#include "kernel/facts/compact.h"

namespace npusim::cpu::loops::rewrite {

void collapse_dimensions(Piece& piece, bool merge) {
  const std::vector<size_t> left = drop_unit_dims(piece.kernel);
  for (size_t i = 0; i < left.size() && !piece.dims.empty(); ++i) piece.dims[i] = piece.dims[left[i]];
  if (!piece.dims.empty()) piece.dims.resize(left.size());
  drop_dead(piece.kernel);  // reductions of a row that is gone
  if (merge && merge_dims(piece.kernel)) piece.dims.clear();
}

}  // namespace npusim::cpu::loops::rewrite
