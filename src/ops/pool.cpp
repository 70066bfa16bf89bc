// Average and maximum pooling in one, two and three dimensions.
#include <algorithm>
#include <limits>

#include "kernel/facts/range.h"
#include "ops/window.h"

namespace npusim {
namespace {

template <int spatial>
std::vector<TensorType> infer_pool(const OpCall& call) {
  const TensorType& self = call.type("self");
  check_spatial(call, self, spatial);
  return {with_spatial(self, windows_of(call, spatial))};
}

template <int spatial>
std::vector<TensorType> infer_pool_with_indices(const OpCall& call) {
  const TensorType values = infer_pool<spatial>(call)[0];
  return {values, {DType::i64, values.shape}};
}

// The number an average divides by: the window's elements, of which ATen counts the padding (but nothing beyond it) if
// asked to.
Ex divisor(WindowKernel& k, const OpCall& call, const std::vector<Window>& windows) {
  if (call.op->schema.find("divisor_override") >= 0 && !call.is_none("divisor_override"))
    return k.integer(call.integer("divisor_override"));
  const bool padded = call.boolean("count_include_pad");
  Ex product = k.integer(1);
  int64_t constant = 1;
  for (int d = 0; d < k.rank(); ++d) {
    const Window& w = windows[static_cast<size_t>(d)];
    const int64_t low = padded ? -w.padding : 0, high = w.extent + (padded ? w.padding : 0);
    const int64_t last = (w.count - 1) * w.stride - w.padding + w.size;
    if (-w.padding >= low && last <= high) {
      constant *= w.size;
      continue;
    }
    const Ex start = k.value(k.window(d) * w.stride + -w.padding);
    product = product * (min(start + w.size, high) - max(start, low));
  }
  return constant == 1 ? product : product * constant;
}

template <int spatial>
void lower_average(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  const std::vector<Window> windows = windows_of(call, spatial);
  WindowKernel k(lowering, self, windows);
  const Ex x = k.load_window(lowering.input(0), k.number(0, scalar_of(self.dtype)));
  const Ex sum = k.reduce(Reduction::sum, x);
  const Ex count = divisor(k, call, windows);
  k.store_window(lowering.output(0), is_real(x) ? sum / count : idiv(sum, count));
  k.done(kernel_name(call));
}

std::string refuse_divisor(const OpCall& call) {
  return call.op->schema.find("divisor_override") >= 0 && !call.is_none("divisor_override") &&
                 call.integer("divisor_override") == 0
             ? "divisor_override=0 divides by zero"
             : "";
}

// Where a window begins, behind the padding, which it may leap over into nothing.
int64_t begin_of(const Window& w, int64_t start) {
  return start < 0 ? start + (-start + w.dilation - 1) / w.dilation * w.dilation : start;
}
bool can_be_empty(const Window& w) {
  for (int64_t n = 0; n < w.count; ++n)
    if (begin_of(w, n * w.stride - w.padding) >= w.extent) return true;
  return false;
}
// The position that ATen gives as the maximum's of a window without elements.
Ex begin_index(WindowKernel& k, const std::vector<Window>& windows) {
  Ex index = k.integer(0);
  for (int d = 0; d < k.rank(); ++d) {
    const Window& w = windows[static_cast<size_t>(d)];
    const Ex start = k.value(k.window(d) * w.stride + -w.padding);
    const Ex leap = idiv(max(0 - start, 0) + (w.dilation - 1), k.integer(w.dilation)) * w.dilation;
    index = index * w.extent + start + leap;
  }
  return index;
}

// Of equal maxima the first counts; a NaN is the maximum, and of several the last counts.
template <int spatial>
void lower_maximum(const OpCall& call, Lowering& lowering) {
  const TensorType& self = call.type("self");
  const std::vector<Window> windows = windows_of(call, spatial);
  WindowKernel k(lowering, self, windows);
  const Range wide{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const Ex lowest = is_float(self.dtype) ? k.number(-std::numeric_limits<double>::infinity(), scalar_of(self.dtype))
                                         : k.integer(element_range(self.dtype).value_or(wide).low);
  const Ex x = k.load_window(lowering.input(0), lowest);
  const Ex top = k.reduce(Reduction::max, x);
  if (call.outputs.size() == 1) {
    k.store_window(lowering.output(0), top);
    return k.done(kernel_name(call));
  }
  constexpr int64_t nowhere = std::numeric_limits<int64_t>::max();
  Ex at = k.reduce(Reduction::min, select(k.inside() && x == top, k.plane_index(), nowhere));
  if (std::any_of(windows.begin(), windows.end(), can_be_empty))
    at = select(at == nowhere, begin_index(k, windows), at);
  if (is_real(x)) at = select(isnan(top), k.reduce(Reduction::max, select(isnan(x), k.plane_index(), int64_t{-1})), at);
  k.store_window(lowering.output(0), top);
  k.store_window(lowering.output(1), at);
  k.done(kernel_name(call));
}

template <int spatial>
constexpr OpRecord average(std::string_view schema) {
  OpRecord record = row_op(schema, infer_pool<spatial>, lower_average<spatial>, 8);
  record.refuse = refuse_divisor;
  return record;
}
template <int spatial>
constexpr OpRecord maximum(std::string_view schema) {
  return row_op(schema, infer_pool<spatial>, lower_maximum<spatial>, 0);
}
template <int spatial>
constexpr OpRecord maximum_with_indices(std::string_view schema) {
  return row_op(schema, infer_pool_with_indices<spatial>, lower_maximum<spatial>, 0);
}

constexpr OpRecord records[] = {
    average<1>("avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], "
               "bool ceil_mode=False, bool count_include_pad=True) -> Tensor"),
    average<2>("avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
               "bool count_include_pad=True, int? divisor_override=None) -> Tensor"),
    average<3>("avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
               "bool count_include_pad=True, int? divisor_override=None) -> Tensor"),
    maximum<1>("max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], "
               "bool ceil_mode=False) -> Tensor"),
    maximum<2>("max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
               "bool ceil_mode=False) -> Tensor"),
    maximum<3>("max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, "
               "bool ceil_mode=False) -> Tensor"),
    maximum_with_indices<1>("max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], "
                            "int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)"),
    maximum_with_indices<2>("max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], "
                            "int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"),
    maximum_with_indices<3>("max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], "
                            "int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"),
};

}  // namespace

std::span<const OpRecord> pool_ops() { return records; }

}  // namespace npusim
