// The index map between two kernels: a consumer's access to a value, as indices of the kernel that stores it.
#pragma once
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// offset + Σ coeffs[d]·index[d] + Σ computed parts.
struct MappedIndex {
  std::vector<int64_t> coeffs;
  int64_t offset = 0;
  bool guarded = false;  // may leave the dimension where a guard of the access does not hold
  int32_t term = -1;     // expression of the consumer that is part of it, times term_scale; traps outside term_extent
  int64_t term_scale = 0, term_extent = 0;
};

struct SplitRequest {
  size_t dim;
  int64_t inner;
};

// The dimensions of a kernel that its store to a value runs over, from the largest stride to the smallest.
struct StoredDims {
  std::vector<size_t> dims;      // positions in the space
  std::vector<int64_t> strides;  // dense: strides[i] = strides[i+1] · extents[i+1]
  std::vector<int64_t> extents;
};
// nullopt unless the store is dense and covers `elements` (dimensions of extent 1 are left out).
std::optional<StoredDims> stored_dims(const Kernel& kernel, const Access& store, int64_t elements);

// Each stored dimension as a function of the indices `extents` that `access` runs over. When an index spans several
// stored dimensions it must be split first: then nullopt and `split` says how. nullopt without a request: no affine
// map.
std::optional<std::vector<MappedIndex>> map_access(const Access& access, const std::vector<int64_t>& extents,
                                                   const StoredDims& stored, std::optional<SplitRequest>& split);

// The access to the same elements once the value is stored with `new_strides` (one per stored dimension). The access
// must map (map_access() gives a value).
Access restride(const Access& access, const std::vector<int64_t>& extents, const StoredDims& stored,
                const std::vector<int64_t>& new_strides);

// The stored dimension the index `d` runs along: -1 when its stride is 0 or divides none.
int stored_digit(const Access& access, size_t d, const StoredDims& stored);

}  // namespace npusim
