// Decomposing an affine address into the mixed-radix digits of a dense store.
#include "kernel/fuse/index_map.h"

#include <algorithm>
#include <numeric>

namespace npusim {
namespace {

// Finds the digit a stride belongs to: the largest stored stride that divides it.
int digit_of(int64_t stride, const StoredDims& stored) {
  for (size_t i = 0; i < stored.strides.size(); ++i)
    if (stored.strides[i] <= stride) return stride % stored.strides[i] == 0 ? static_cast<int>(i) : -1;
  return -1;
}

}  // namespace

std::optional<StoredDims> stored_dims(const Kernel& kernel, const Access& store, int64_t elements) {
  if (store.offset != 0 || !store.guards.empty() || !store.terms.empty()) return std::nullopt;
  StoredDims stored;
  const size_t outer = kernel.space.size() - static_cast<size_t>(kernel.row_dims);
  for (size_t d = 0; d < kernel.space.size(); ++d) {
    if (kernel.space[d] == 1) continue;
    if (store.strides[d] == 0 && d >= outer) continue;  // the same along the row
    stored.dims.push_back(d);
  }
  std::stable_sort(stored.dims.begin(), stored.dims.end(),
                   [&](size_t a, size_t b) { return store.strides[a] > store.strides[b]; });
  int64_t expected = 1;
  for (size_t i = stored.dims.size(); i-- > 0;) {
    const size_t d = stored.dims[i];
    if (store.strides[d] != expected) return std::nullopt;
    expected *= kernel.space[d];
  }
  if (expected != elements) return std::nullopt;
  for (size_t d : stored.dims) {
    stored.strides.push_back(store.strides[d]);
    stored.extents.push_back(kernel.space[d]);
  }
  return stored;
}

std::optional<std::vector<MappedIndex>> map_access(const Access& access, const std::vector<int64_t>& extents,
                                                   const StoredDims& stored, std::optional<SplitRequest>& split) {
  const size_t digits = stored.dims.size();
  std::vector<MappedIndex> map(digits);
  std::vector<int64_t> reach(digits, 0);  // largest value each digit takes
  for (MappedIndex& m : map) m.coeffs.assign(extents.size(), 0);

  int64_t offset = access.offset;
  for (size_t d = 0; d < extents.size(); ++d)
    if (access.strides[d] < 0) offset += access.strides[d] * (extents[d] - 1);  // counted from the far end below
  if (offset < 0) return std::nullopt;
  for (size_t i = 0; i < digits; ++i) {
    map[i].offset = reach[i] = offset / stored.strides[i];
    offset %= stored.strides[i];
  }
  if (offset != 0) return std::nullopt;

  for (size_t d = 0; d < extents.size(); ++d) {
    const int64_t stride = std::abs(access.strides[d]), n = extents[d];
    if (stride == 0 || n <= 1) continue;
    const int i = digit_of(stride, stored);
    if (i < 0) return std::nullopt;
    const auto digit = static_cast<size_t>(i);
    const int64_t q = stride / stored.strides[digit], limit = stored.extents[digit];
    if (q * (n - 1) >= limit) {
      if (limit % q != 0 || limit / q <= 1 || n % (limit / q) != 0 || limit / q == n) return std::nullopt;
      split = SplitRequest{d, limit / q};
      return std::nullopt;
    }
    reach[digit] += q * (n - 1);
    map[digit].coeffs[d] += access.strides[d] < 0 ? -q : q;
    if (access.strides[d] < 0) map[digit].offset += q * (n - 1);
  }
  for (const Guard& g : access.guards) {
    if (g.stride == 0 || g.limit <= 1) {
      // The guard still decides whether memory is touched; it is kept by the digits' own guards only if it moves one.
      return std::nullopt;
    }
    const int i = g.stride < 0 ? -1 : digit_of(g.stride, stored);
    if (i < 0) return std::nullopt;
    const auto digit = static_cast<size_t>(i);
    const int64_t q = g.stride / stored.strides[digit];
    if (q * (g.limit - 1) >= stored.extents[digit]) return std::nullopt;
    reach[digit] += q * (g.limit - 1);
    for (size_t d = 0; d < extents.size(); ++d) map[digit].coeffs[d] += q * g.coeffs[d];
    map[digit].offset += q * g.offset;
    map[digit].guarded = true;
  }
  for (const IndexTerm& t : access.terms) {
    if (t.stride <= 0) return std::nullopt;
    const int i = digit_of(t.stride, stored);
    if (i < 0) {
      if (t.extent == 1) continue;
      return std::nullopt;
    }
    const auto digit = static_cast<size_t>(i);
    const int64_t q = t.stride / stored.strides[digit];
    if (q * (t.extent - 1) >= stored.extents[digit] || map[digit].term >= 0) return std::nullopt;
    reach[digit] += q * (t.extent - 1);
    map[digit].term = t.expr;
    map[digit].term_scale = q;
    map[digit].term_extent = t.extent;
  }
  for (size_t i = 0; i < digits; ++i)
    if (reach[i] >= stored.extents[i]) return std::nullopt;  // would carry into the next digit
  return map;
}

int stored_digit(const Access& access, size_t d, const StoredDims& stored) {
  const int64_t stride = std::abs(access.strides[d]);
  return stride == 0 ? -1 : digit_of(stride, stored);
}

Access restride(const Access& access, const std::vector<int64_t>& extents, const StoredDims& stored,
                const std::vector<int64_t>& new_strides) {
  Access out = access;
  auto moved = [&](int64_t stride) {
    const int i = digit_of(std::abs(stride), stored);
    return i < 0 ? 0 : stride / stored.strides[static_cast<size_t>(i)] * new_strides[static_cast<size_t>(i)];
  };
  int64_t offset = access.offset;
  out.offset = 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (access.strides[d] == 0 || extents[d] <= 1) {
      out.strides[d] = 0;
      continue;
    }
    out.strides[d] = moved(access.strides[d]);
    if (access.strides[d] < 0) {  // the digits of the offset are those of the far end
      offset += access.strides[d] * (extents[d] - 1);
      out.offset -= out.strides[d] * (extents[d] - 1);
    }
  }
  for (size_t i = 0; i < stored.strides.size(); ++i) {
    out.offset += offset / stored.strides[i] * new_strides[i];
    offset %= stored.strides[i];
  }
  for (Guard& g : out.guards) g.stride = moved(g.stride);
  for (IndexTerm& t : out.terms) t.stride = t.extent == 1 ? 0 : moved(t.stride);
  return out;
}

}  // namespace npusim
