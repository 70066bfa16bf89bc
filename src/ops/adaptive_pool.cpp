// Adaptive pooling: window o of n covers [floor(o·in/n), ceil((o + 1)·in/n)). Windows are boxes, so dimensions are
// pooled one after the other.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/window.h"

namespace npusim {
namespace {

std::vector<int64_t> output_size(const OpCall& call, size_t spatial) {
  std::vector<int64_t> sizes = call.ints("output_size", spatial);
  for (int64_t size : sizes)
    if (size < 0) fail(ErrorKind::bad_input, "{}: negative output size {}", call.op->name(), to_string(sizes));
  return sizes;
}

// Windows along one dimension, of `least` elements each or up to `most`.
struct Axis {
  int64_t extent = 0, count = 0, least = 0, most = 0;
  bool even() const { return extent % count == 0; }
};

std::vector<Axis> axes_of(const OpCall& call, size_t spatial) {
  const Shape& shape = call.type("self").shape;
  const std::vector<int64_t> sizes = output_size(call, spatial);
  std::vector<Axis> axes;
  for (size_t d = 0; d < spatial; ++d) {
    Axis a{shape[shape.size() - spatial + d], sizes[d], std::numeric_limits<int64_t>::max(), 0};
    for (int64_t o = 0; o < a.count; ++o) {
      const int64_t size = ((o + 1) * a.extent + a.count - 1) / a.count - o * a.extent / a.count;
      a.least = std::min(a.least, size);
      a.most = std::max(a.most, size);
    }
    axes.push_back(a);
  }
  return axes;
}

// Neighbouring dimensions that are pooled by one kernel: one, or several that have one window.
struct Group {
  size_t first = 0, count = 0;
};
std::vector<Group> groups_of(const std::vector<Axis>& axes) {
  std::vector<Group> groups;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d].count == axes[d].extent) continue;
    const bool joins = !groups.empty() && groups.back().first + groups.back().count == d && axes[d].count == 1 &&
                       axes[d - 1].count == 1;
    if (joins)
      ++groups.back().count;
    else
      groups.push_back({d, 1});
  }
  if (groups.empty()) groups.push_back({axes.size() - 1, 1});
  return groups;
}

// The kernel of a group, over a tensor [lead…, spatial…] whose earlier groups are pooled: a window's row are the
// elements that all windows have; where windows differ there is one dimension, and those that only some have are read
// outside of the row.
struct Pooling {
  Pooling(Lowering& lowering, const Shape& shape, const std::vector<Axis>& axes, Group group)
      : axes(axes),
        group(group),
        lead(shape.size() - axes.size()),
        k(lowering, space(shape), static_cast<int>(group.count)) {}

  Shape space(Shape shape) const {
    for (size_t d = group.first; d < group.first + group.count; ++d) {
      shape[lead + d] = axes[d].count;
      shape.push_back(axes[d].least);
    }
    return shape;
  }
  bool pooled(size_t d) const { return d >= group.first && d < group.first + group.count; }
  int rank() const { return static_cast<int>(lead + axes.size()); }
  Affine window(size_t d) const { return k.dim(static_cast<int>(lead + d)); }
  Affine along(size_t d) const { return k.dim(rank() + static_cast<int>(d - group.first)); }

  Ex start(size_t d) {
    if (axes[d].even()) return k.value(window(d) * axes[d].least);
    return idiv(k.value(window(d) * axes[d].extent), k.integer(axes[d].count));
  }
  Ex end(size_t d) {
    return idiv(k.value(window(d) * axes[d].extent + (axes[d].extent + axes[d].count - 1)), k.integer(axes[d].count));
  }
  // Position t of a window, of those that it has its last one at most.
  Ex position(size_t d, int64_t t) { return min(start(d) + t, end(d) - 1); }

  Coord in_row(size_t d) {
    if (axes[d].even()) return window(d) * axes[d].least + along(d);
    return {start(d), along(d)};
  }
  // The element in the row, or that at position t.
  Ex element(int operand, std::optional<int64_t> t = {}) {
    std::vector<Coord> at;
    for (size_t d = 0; d < lead; ++d) at.emplace_back(k.dim(static_cast<int>(d)));
    for (size_t d = 0; d < axes.size(); ++d) {
      if (!pooled(d))
        at.emplace_back(window(d));
      else if (t)
        at.emplace_back(position(d, *t));
      else
        at.push_back(in_row(d));
    }
    return k.load(k.read(operand), at);
  }

  const std::vector<Axis>& axes;
  Group group;
  size_t lead;
  OpKernel k;
};

template <int spatial>
std::vector<TensorType> infer_average(const OpCall& call) {
  const TensorType& self = call.type("self");
  check_spatial(call, self, spatial);
  TensorType type = self;
  for (size_t d = 0; const int64_t size : output_size(call, spatial)) {
    int64_t& extent = type.shape[type.shape.size() - spatial + d++];
    if (extent == 0) fail(ErrorKind::bad_input, "{}: empty input {}", call.op->name(), to_string(self.shape));
    extent = size;
  }
  return {type};
}

template <int spatial>
std::vector<TensorType> infer_maximum(const OpCall& call) {
  const TensorType values = infer_average<spatial>(call)[0];
  return {values, {DType::i64, values.shape}};
}

// Walks the groups: body(pooling, operand to read, whether it is the last, shape of the result).
template <typename Body>
void pool_groups(const OpCall& call, Lowering& lowering, size_t spatial, Body&& body) {
  if (element_count(call.outputs[0].shape) == 0) return;
  const std::vector<Axis> axes = axes_of(call, spatial);
  const std::vector<Group> groups = groups_of(axes);
  Shape shape = call.type("self").shape;
  for (size_t g = 0; g < groups.size(); ++g) {
    Pooling p(lowering, shape, axes, groups[g]);
    shape.assign(p.k.space().begin(), p.k.space().begin() + p.rank());
    body(p, g + 1 == groups.size(), shape);
    p.k.done(kernel_name(call));
  }
}

// Means of means: of a window's rows, all of one length, and so on.
template <int spatial>
void lower_average(const OpCall& call, Lowering& lowering) {
  int from = lowering.input(call.tensor("self"));
  const DType between = call.type("self").dtype == DType::f64 ? DType::f64 : DType::f32;
  pool_groups(call, lowering, spatial, [&](Pooling& p, bool last, const Shape& shape) {
    Ex sum = p.k.reduce(Reduction::sum, p.element(from));
    const size_t d = p.group.first;
    Ex size = p.k.integer(1);
    if (p.axes[d].even()) {
      int64_t elements = 1;
      for (size_t i = 0; i < p.group.count; ++i) elements *= p.axes[d + i].least;
      size = p.k.integer(elements);
    } else {
      size = p.end(d) - p.start(d);
    }
    for (int64_t t = p.axes[d].least; t < p.axes[d].most; ++t)
      sum = sum + p.k.select(p.k.integer(t) < size, p.element(from, t), p.k.number(0, sum.type()));
    from = last ? lowering.output(0) : lowering.temporary({between, shape});
    p.k.store(p.k.write(from), sum / size);
  });
}

template <int spatial>
void lower_maximum(const OpCall& call, Lowering& lowering) {
  std::vector<int64_t> strides(spatial, 1);
  const Shape& self = call.type("self").shape;
  for (size_t d = spatial; d-- > 1;) strides[d - 1] = strides[d] * self[self.size() - spatial + d];
  const int64_t plane = strides[0] * self[self.size() - spatial];
  const Scalar exact = plane <= int64_t{1} << 24 ? Scalar::f32 : Scalar::i64;
  const DType between = plane <= std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64;
  int from = lowering.input(call.tensor("self")), places = -1;
  pool_groups(call, lowering, spatial, [&](Pooling& p, bool last, const Shape& shape) {
    const size_t first = p.group.first, end = first + p.group.count;
    // In the plane, but counted from where the window starts along this group's dimensions.
    const auto place = [&](std::optional<int64_t> t) {
      Ex sum = places >= 0 ? p.k.cast(p.element(places, t), exact) : p.k.integer(0, exact);
      for (size_t d = first; d < end; ++d) {
        const Ex within = t ? min(p.k.integer(*t), p.end(d) - p.start(d) - 1) : p.k.value(p.along(d));
        sum = sum + p.k.cast(within, exact) * strides[d];
      }
      return sum;
    };
    // Of equal maxima the one with the least place counts; a NaN is the maximum, of several that with the largest.
    const Ex x = p.element(from);
    Ex top = p.k.reduce(Reduction::max, x);
    const Ex none = exact == Scalar::f32 ? p.k.number(std::numeric_limits<double>::infinity())
                                         : p.k.integer(std::numeric_limits<int64_t>::max());
    Ex at = p.k.reduce(Reduction::min, select(x == top, place({}), none));
    if (is_real(x)) {
      const Ex last = p.k.reduce(Reduction::max, select(isnan(x), place({}), -1));
      at = select(isnan(top), last, at);
    }
    for (int64_t t = p.axes[first].least; t < p.axes[first].most; ++t) {
      const Ex next = p.element(from, t);
      // Behind the end of a shorter window its last element comes again.
      const Ex there = place(t);
      Ex beyond = next > top || (next == top && there < at);
      if (is_real(x)) beyond = beyond || (isnan(next) && (!isnan(top) || there > at));
      at = select(beyond, there, at);
      top = max(top, next);
    }
    at = p.k.cast(at, Scalar::i64);
    for (size_t d = first; d < end; ++d) at = at + p.start(d) * strides[d];
    for (size_t d = 0; last && d < spatial; ++d)
      if (p.axes[d].count == p.axes[d].extent && !p.pooled(d)) at = at + p.k.value(p.window(d) * strides[d]);
    from = last ? lowering.output(0) : lowering.temporary({call.outputs[0].dtype, shape});
    places = last ? lowering.output(1) : lowering.temporary({between, shape});
    p.k.store(p.k.write(from), top);
    p.k.store(p.k.write(places), at);
  });
}

template <int spatial>
constexpr OpRecord average(std::string_view schema) {
  return row_op(schema, infer_average<spatial>, lower_average<spatial>, 8);
}
template <int spatial>
constexpr OpRecord maximum(std::string_view schema) {
  return row_op(schema, infer_maximum<spatial>, lower_maximum<spatial>, 0);
}

constexpr OpRecord records[] = {
    average<1>("adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"),
    average<2>("adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"),
    average<3>("adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"),
    average<2>("_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"),
    average<3>("_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"),
    maximum<1>("adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)"),
    maximum<2>("adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"),
    maximum<3>("adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)"),
};

}  // namespace

std::span<const OpRecord> adaptive_pool_ops() { return records; }

}  // namespace npusim
