// Roles of dimensions, from which operand depends on them.
#include "kernel/facts/product_axes.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace npusim {

int64_t Axis::size() const { return element_count(extents); }

Axis make_axis(const std::vector<int64_t>& all_extents, std::vector<int> dims) {
  Axis axis{std::move(dims), {}};
  for (int d : axis.dims) axis.extents.push_back(all_extents[static_cast<size_t>(d)]);
  return axis;
}

bool depends_on(const Access& access, int dim) {
  const auto d = static_cast<size_t>(dim);
  if (access.strides[d] != 0) return true;
  for (const Guard& guard : access.guards)
    if (guard.coeffs[d] != 0) return true;
  return false;
}

ProductAxes product_axes(const Kernel& kernel) {
  const Contraction& c = *kernel.contraction;
  std::vector<int> batch, rows, columns, depth;
  for (int d = 0; d < static_cast<int>(kernel.space.size()); ++d) {
    const bool in_a = depends_on(c.a, d), in_b = depends_on(c.b, d);
    if (in_a && in_b)
      batch.push_back(d);
    else if (in_a)
      rows.push_back(d);
    else if (in_b)
      columns.push_back(d);
  }
  std::vector<int64_t> all = kernel.space;
  for (int64_t extent : c.reduce) {
    depth.push_back(static_cast<int>(all.size()));
    all.push_back(extent);
  }
  return {make_axis(all, batch), make_axis(all, rows), make_axis(all, columns), make_axis(all, depth)};
}

void walk_forward(Axis& axis, const Access& access) {
  auto stride = [&](int dim) {
    const auto d = static_cast<size_t>(dim);
    int64_t total = access.strides[d];
    for (const Guard& guard : access.guards) total += guard.stride * guard.coeffs[d];
    return std::abs(total);
  };
  std::vector<std::pair<int, int64_t>> dims;
  for (size_t i = 0; i < axis.dims.size(); ++i) dims.emplace_back(axis.dims[i], axis.extents[i]);
  std::stable_sort(dims.begin(), dims.end(), [&](auto a, auto b) { return stride(a.first) > stride(b.first); });
  for (size_t i = 0; i < dims.size(); ++i) std::tie(axis.dims[i], axis.extents[i]) = dims[i];
}

}  // namespace npusim
