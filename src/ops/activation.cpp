// Activation functions.
#include "ops/formula.h"

namespace npusim {
namespace {

constexpr OpRecord records[] = {
    formula<[](Ex x) { return max(x, 0); }>("relu(Tensor self) -> Tensor"),
    formula<[](Ex x) { return x / (1 + exp(-x)); }>("silu(Tensor self) -> Tensor"),
    formula<[](Ex x, const OpCall& c) {
      return max(min(x, scalar_attr(x, c, "max_val")), scalar_attr(x, c, "min_val"));
    }>("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> activation_ops() { return records; }

}  // namespace npusim
