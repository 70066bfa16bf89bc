// A toy operator: x · x + offset.
#include "ops/formula.h"

namespace npusim {
namespace {

constexpr OpRecord records[] = {
    formula<[](Ex x, const OpCall& call) { return x * x + scalar_attr(x, call, "offset"); }>(
        "toy_square(Tensor self, Scalar offset=0) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> toy_ops() { return records; }

}  // namespace npusim
