// Adaptive pooling: window o of n covers [floor(o·in/n), ceil((o + 1)·in/n)).
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

// Windows that do not all have the same size get the largest, and their ends are masked.
std::vector<Window> adaptive_windows(const OpCall& call, size_t spatial) {
  const Shape& shape = call.type("self").shape;
  const std::vector<int64_t> sizes = output_size(call, spatial);
  std::vector<Window> windows;
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t extent = shape[shape.size() - spatial + d], count = sizes[d];
    Window w{extent, 1, 1, 0, 1, count};
    if (count > 0 && extent % count == 0)
      w.size = w.stride = extent / count;
    else
      for (int64_t o = 0; o < count; ++o)
        w.size = std::max(w.size, ((o + 1) * extent + count - 1) / count - o * extent / count);
    windows.push_back(w);
  }
  return windows;
}

// The kernel of a call: the element of a window, its position in the input, how many there are, and which are none.
struct Adaptive {
  Adaptive(const OpCall& call, Lowering& lowering, size_t spatial)
      : windows(adaptive_windows(call, spatial)), k(lowering, call.type("self"), windows), index(k.integer(0)) {
    std::vector<Coord> at;
    for (int d = 0; d < k.lead(); ++d) at.emplace_back(k.dim(d));
    for (int d = 0; d < k.rank(); ++d) at.push_back(walk(d));
    element = k.load(k.read(lowering.input(call.tensor("self"))), at);
  }

  // The coordinate along spatial dimension d. Positions past a window's end are clamped into the input.
  Coord walk(int d) {
    const Window& w = windows[static_cast<size_t>(d)];
    const int row = k.lead() + k.rank() + d;
    if (w.extent % w.count == 0) {
      const Affine position = k.window(d) * w.stride + k.dim(row);
      size_constant *= w.size;
      advance(w, k.value(position));
      return position;
    }
    const Ex o = k.index(k.lead() + d);
    const Ex start = idiv(o * w.extent, k.integer(w.count));
    const Ex end = idiv((o + 1) * w.extent + (w.count - 1), k.integer(w.count));
    const Ex position = min(start + k.index(row), w.extent - 1);
    const Ex valid = start + k.index(row) < end;
    inside = inside.builder ? inside && valid : valid;
    size_computed = size_computed.builder ? size_computed * (end - start) : end - start;
    advance(w, position);
    return position;
  }

  void advance(const Window& w, Ex position) { index = index * w.extent + position; }

  Ex masked(Ex outside) { return inside.builder ? select(inside, element, outside) : element; }
  Ex size() { return size_computed.builder ? size_computed * size_constant : k.integer(size_constant); }

  std::vector<Window> windows;
  WindowKernel k;
  Ex index;
  Ex element, inside, size_computed;
  int64_t size_constant = 1;
};

template <int spatial>
std::vector<TensorType> infer_average(const OpCall& call) {
  const TensorType& self = call.type("self");
  check_spatial(call, self, spatial);
  const std::vector<Window> windows = adaptive_windows(call, spatial);
  for (const Window& w : windows)
    if (w.extent == 0) fail(ErrorKind::bad_input, "{}: empty input {}", call.op->name(), to_string(self.shape));
  return {with_spatial(self, windows)};
}

template <int spatial>
std::vector<TensorType> infer_maximum(const OpCall& call) {
  const TensorType values = infer_average<spatial>(call)[0];
  return {values, {DType::i64, values.shape}};
}

template <int spatial>
void lower_average(const OpCall& call, Lowering& lowering) {
  if (element_count(call.outputs[0].shape) == 0) return;
  Adaptive a(call, lowering, spatial);
  const Ex sum = a.k.reduce(Reduction::sum, a.masked(a.k.number(0, a.element.type())));
  a.k.store_window(lowering.output(0), sum / a.size());
  a.k.done(kernel_name(call));
}

// Of equal maxima the first counts; a NaN is the maximum, and of several the last counts.
template <int spatial>
void lower_maximum(const OpCall& call, Lowering& lowering) {
  if (element_count(call.outputs[0].shape) == 0) return;
  Adaptive a(call, lowering, spatial);
  const Ex lowest = is_real(a.element) ? literal(a.element, -std::numeric_limits<double>::infinity())
                                       : literal(a.element, std::numeric_limits<int64_t>::min());
  const Ex x = a.masked(lowest);
  const Ex top = a.k.reduce(Reduction::max, x);
  constexpr int64_t nowhere = std::numeric_limits<int64_t>::max();
  Ex at = a.k.reduce(Reduction::min, select(a.inside.builder ? a.inside && x == top : x == top, a.index, nowhere));
  if (is_real(x)) at = select(isnan(top), a.k.reduce(Reduction::max, select(isnan(x), a.index, int64_t{-1})), at);
  a.k.store_window(lowering.output(0), top);
  a.k.store_window(lowering.output(1), at);
  a.k.done(kernel_name(call));
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
