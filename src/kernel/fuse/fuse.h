// Fusion as substitution: one kernel's expression replaces another's load, through the index map between their spaces.
#pragma once
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// A kernel and what its arguments stand for: equal numbers are the same value, which is read through one argument.
struct BoundKernel {
  Kernel kernel;
  std::vector<int> values;
};

// Drops dimensions of extent 1 (not of convolutions, whose dimensions are fixed) and expressions, accesses and
// arguments nothing needs; arguments of equal values become one. Arguments that are updated stay.
void simplify(BoundKernel& bound);

// Splits dimension d (of the space, or of a contraction's reduced ones when d >= rank) of extent n into (n/inner,
// inner).
void split_dim(Kernel& kernel, size_t d, int64_t inner);
// Not the row of a scan or an order, which is one dimension.
bool may_split(const Kernel& kernel, size_t d);

struct FuseOptions {
  bool strict = false;  // round at every edge as eager does; otherwise floats stay in f32 within a kernel
};

// `consumer` with every load of `value` replaced by what `producer` computes for it; nullopt where the index map is not
// affine or the rows do not match. The producer has no contraction; into a contraction's operands only copies go. The
// result reads what both read and writes what the consumer writes. `aligned` also demands that every point of the
// producer's space is visited exactly once (no recomputation).
std::optional<BoundKernel> inline_value(const BoundKernel& consumer, const BoundKernel& producer, int value,
                                        bool aligned, const FuseOptions& options);

// `producer`, which may hold a contraction, with the pointwise `consumer` of `value` as its epilogue: they visit the
// same points once. Writes what the consumer writes, and `value` too when `keep` is set.
std::optional<BoundKernel> append_consumer(const BoundKernel& producer, const BoundKernel& consumer, int value,
                                           bool keep, const FuseOptions& options);

}  // namespace npusim
