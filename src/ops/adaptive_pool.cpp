// Adaptive pooling: window o of n covers [floor(o·in/n), ceil((o + 1)·in/n)).
#include <algorithm>
#include <limits>
#include <numeric>

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

// Windows along one dimension, of at most so many elements each.
struct Axis {
  int64_t extent = 0, count = 0, most = 0;
  bool even() const { return extent % count == 0; }
};

std::vector<Axis> axes_of(const OpCall& call, size_t spatial) {
  const Shape& shape = call.type("self").shape;
  const std::vector<int64_t> sizes = output_size(call, spatial);
  std::vector<Axis> axes;
  for (size_t d = 0; d < spatial; ++d) {
    Axis a{shape[shape.size() - spatial + d], sizes[d], 0};
    // Window o begins at a fraction o · rest mod count of an element, each multiple of their divisor once: one that
    // begins within an element has a part of it, and one more where it does not end with one.
    if (a.count > 0) {
      const int64_t rest = a.extent % a.count;
      a.most = a.extent / a.count + (rest == 0 ? 0 : rest > std::gcd(rest, a.count) ? 2 : 1);
    }
    axes.push_back(a);
  }
  return axes;
}

// A row per window, of as many elements as the largest has.
struct Pooling {
  Pooling(Lowering& lowering, const TensorType& self, const std::vector<Axis>& axes)
      : axes(axes),
        lead(self.shape.size() - axes.size()),
        k(lowering, space(self.shape), static_cast<int>(axes.size())) {}

  Shape space(Shape shape) const {
    for (size_t d = 0; d < axes.size(); ++d) {
      shape[lead + d] = axes[d].count;
      shape.push_back(axes[d].most);
    }
    return shape;
  }
  Affine window(size_t d) const { return k.dim(static_cast<int>(lead + d)); }
  Affine along(size_t d) const { return k.dim(static_cast<int>(lead + axes.size() + d)); }

  // By the number of windows of d, of at most extent · (count + 1): where it can be, as a product with a fraction of
  // 2^32, which is exact as long as value · count < 2^32 and takes devices a tenth of the time.
  Ex divided(const Affine& value, size_t d) {
    const int64_t by = axes[d].count, one = int64_t{1} << 32;
    const Ex x = k.value(value);
    if (axes[d].extent >= one / ((by + 1) * by)) return idiv(x, k.integer(by));
    return shr(x * ((one + by - 1) / by), k.integer(32));
  }
  Ex start(size_t d) {
    if (axes[d].even()) return k.value(window(d) * axes[d].most);
    return divided(window(d) * axes[d].extent, d);
  }
  Ex size(size_t d) {
    if (axes[d].even()) return k.integer(axes[d].most);
    return divided(window(d) * axes[d].extent + (axes[d].extent + axes[d].count - 1), d) - start(d);
  }
  // Whether the position is one of the window's, where not all have as many.
  std::optional<Ex> inside() {
    std::optional<Ex> all;
    for (size_t d = 0; d < axes.size(); ++d) {
      if (axes[d].even()) continue;
      const Ex in = k.value(along(d)) < size(d);
      all = all ? *all && in : in;
    }
    return all;
  }
  // The element at the position, or what stands for none.
  Ex element(int operand, double none) {
    std::vector<Coord> at;
    for (size_t d = 0; d < lead; ++d) at.emplace_back(k.dim(static_cast<int>(d)));
    for (size_t d = 0; d < axes.size(); ++d) {
      if (axes[d].even())
        at.emplace_back(window(d) * axes[d].most + along(d));
      else
        at.emplace_back(min(start(d) + k.value(along(d)), axes[d].extent - 1));
    }
    const Ex x = k.load(k.read(operand), at);
    const auto in = inside();
    if (!in) return x;
    return k.select(*in, x, is_real(x) ? k.number(none, x.type()) : k.integer(none == 0 ? 0 : least));
  }
  static constexpr int64_t least = std::numeric_limits<int64_t>::min();

  const std::vector<Axis>& axes;
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

template <int spatial>
void lower_average(const OpCall& call, Lowering& lowering) {
  if (element_count(call.outputs[0].shape) == 0) return;
  const std::vector<Axis> axes = axes_of(call, spatial);
  Pooling p(lowering, call.type("self"), axes);
  const Ex sum = p.k.reduce(Reduction::sum, p.element(lowering.input(call.tensor("self")), 0));
  Ex size = p.size(0);
  for (size_t d = 1; d < spatial; ++d) size = size * p.size(d);
  p.k.store(p.k.write(lowering.output(0)), sum / size);
  p.k.done(kernel_name(call));
}

// Of equal maxima the first counts; a NaN is the maximum, and of several the last counts.
template <int spatial>
void lower_maximum(const OpCall& call, Lowering& lowering) {
  if (element_count(call.outputs[0].shape) == 0) return;
  const std::vector<Axis> axes = axes_of(call, spatial);
  Pooling p(lowering, call.type("self"), axes);
  const Ex x = p.element(lowering.input(call.tensor("self")), -std::numeric_limits<double>::infinity());
  const Ex top = p.k.reduce(Reduction::max, x);
  Ex position = p.k.integer(0);
  int64_t stride = 1;
  for (size_t d = spatial; d-- > 0; stride *= axes[d].extent)
    position = position + p.start(d) * stride + p.k.value(p.along(d) * stride);
  const auto in = p.inside();
  const Ex hit = in ? *in && x == top : x == top;
  Ex at = p.k.reduce(Reduction::min, select(hit, position, std::numeric_limits<int64_t>::max()));
  if (is_real(x)) at = select(isnan(top), p.k.reduce(Reduction::max, select(isnan(x), position, int64_t{-1})), at);
  p.k.store(p.k.write(lowering.output(0)), top);
  p.k.store(p.k.write(lowering.output(1)), at);
  p.k.done(kernel_name(call));
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
