// Substitution: a kernel's expressions written into another kernel whose indices its own are functions of.
#pragma once
#include <optional>
#include <vector>

#include "kernel/fuse/fuse.h"
#include "kernel/fuse/index_map.h"

namespace npusim {

// The argument that stands for a value, -1 if there is none; add_arg() appends it then.
int find_arg(const BoundKernel& b, int value, bool written);
int add_arg(BoundKernel& b, const KernelArg& arg, int value);
// The only store to an argument; null when there are more or it accumulates.
const Store* store_of(const Kernel& k, int arg);

class Substitution {
 public:
  // `map[d]` is dimension d of `from` in indices of `into`; `args` renames arguments.
  Substitution(const Kernel& from, Kernel& into, std::vector<MappedIndex> map, std::vector<int> args);

  // Whether all that was written so far could be.
  bool ok() const { return ok_; }
  // Whether every computed index of the map is a load's among them, which traps where it is outside.
  bool traps() const;
  void replace(int32_t expr, int32_t with) { done_[static_cast<size_t>(expr)] = with; }
  // The expression's counterpart in `into`, appended when it is not there yet.
  int32_t expression(int32_t id);
  Access access(const Access& a);

 private:
  int64_t load(const Access& a);
  int32_t index(size_t d);
  int32_t integer(int64_t value);
  int32_t binary(ExprOp op, int32_t a, int32_t b);
  int32_t scaled(int32_t x, int64_t by);

  const Kernel& from_;
  Kernel& into_;
  std::vector<MappedIndex> map_;
  std::vector<int> args_;
  std::vector<int32_t> done_;
  std::vector<bool> trapped_;  // by dimension of `from`: a load has its computed index
  bool ok_ = true;
};

bool same_map(const std::vector<MappedIndex>& a, const std::vector<MappedIndex>& b);

// The expression as its value's buffer of `dtype` would hold it: integers wrap, floats are rounded only under strict
// numerics.
int32_t through_dtype(Kernel& k, int32_t expr, DType dtype, bool strict);
// The expression as a load of `type` gives it.
int32_t cast_to(Kernel& k, int32_t expr, Scalar type);

// Splits the consumer until every access of `arg` maps onto the producer's stored dimensions; false when none can.
bool split_until_mapped(Kernel& consumer, int arg, const StoredDims& stored);

// The number of points of a box, from dimension `begin` to `end` (to the last one when `end` is left out).
int64_t points(const std::vector<int64_t>& extents, size_t begin = 0, size_t end = SIZE_MAX);

}  // namespace npusim
