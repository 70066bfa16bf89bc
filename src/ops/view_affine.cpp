// Views whose elements are the operand's in another order: transpose, slice, expand, select and their kind.
#include "base/error.h"
#include "ops/view.h"

namespace npusim {
namespace {

std::vector<TensorType> infer_transpose(const OpCall& call) {
  TensorType type = call.type("self");
  if (type.shape.empty()) return {type};
  std::swap(type.shape[static_cast<size_t>(normalize_dim(call.integer("dim0"), type.shape.size()))],
            type.shape[static_cast<size_t>(normalize_dim(call.integer("dim1"), type.shape.size()))]);
  return {type};
}

void lower_transpose(const OpCall& call, Lowering& lowering) {
  const size_t rank = call.type("self").shape.size();
  std::vector<int> source(rank);
  for (size_t d = 0; d < rank; ++d) source[d] = static_cast<int>(d);
  if (rank) std::swap(source[static_cast<size_t>(normalize_dim(call.integer("dim0"), rank))],
                      source[static_cast<size_t>(normalize_dim(call.integer("dim1"), rank))]);
  lower_copy(lowering, "transpose", [&](const KernelBuilder& k) {
    std::vector<Coord> at;
    for (size_t d = 0; d < rank; ++d) at.emplace_back(k.dim(source[d]));
    return at;
  });
}

constexpr OpRecord records[] = {
    view("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", infer_transpose, lower_transpose),
};

}  // namespace

std::span<const OpRecord> view_affine_ops() { return records; }

}  // namespace npusim
