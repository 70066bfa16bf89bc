// Kernels with a row per window of a tensor's spatial dimensions.
#include "ops/window.h"

#include "base/error.h"

namespace npusim {
namespace {

Shape window_space(const TensorType& input, const std::vector<Window>& windows) {
  Shape space(input.shape.begin(), input.shape.end() - static_cast<std::ptrdiff_t>(windows.size()));
  for (const Window& w : windows) space.push_back(w.count);
  for (const Window& w : windows) space.push_back(w.size);
  return space;
}

std::vector<int64_t> ints_or(const OpCall& call, std::string_view arg, size_t size, int64_t otherwise) {
  std::vector<int64_t> list;
  if (call.op->schema.find(arg) >= 0) list = call.ints(arg, size);
  if (list.empty()) list.assign(size, otherwise);
  return list;
}

}  // namespace

std::vector<Window> windows_of(const OpCall& call, size_t spatial) {
  const Shape& shape = call.type("self").shape;
  const std::vector<int64_t> size = call.ints("kernel_size", spatial);
  std::vector<int64_t> stride = call.ints("stride", spatial);
  if (stride.empty()) stride = size;
  const std::vector<int64_t> padding = ints_or(call, "padding", spatial, 0);
  const std::vector<int64_t> dilation = ints_or(call, "dilation", spatial, 1);
  const bool ceil = call.boolean("ceil_mode");
  std::vector<Window> windows;
  for (size_t d = 0; d < spatial; ++d) {
    Window w{shape[shape.size() - spatial + d], size[d], stride[d], padding[d], dilation[d], 0};
    if (w.size < 1 || w.stride < 1 || w.dilation < 1 || w.padding < 0 || 2 * w.padding > w.dilation * (w.size - 1) + 1)
      fail(ErrorKind::bad_input, "{}: kernel_size {}, stride {}, padding {}, dilation {} do not make a window",
           call.op->name(), w.size, w.stride, w.padding, w.dilation);
    const int64_t room = w.extent + 2 * w.padding - w.dilation * (w.size - 1) - 1;
    const int64_t rounded = room + (ceil ? w.stride - 1 : 0);
    w.count = rounded < 0 ? 0 : rounded / w.stride + 1;
    // A window that starts in the far padding is none.
    if (ceil && (w.count - 1) * w.stride >= w.extent + w.padding) --w.count;
    if (w.count < 1)
      fail(ErrorKind::bad_input, "{}: a window of {} does not fit the extent {}", call.op->name(), w.size, w.extent);
    windows.push_back(w);
  }
  return windows;
}

TensorType with_spatial(const TensorType& input, const std::vector<Window>& windows) {
  TensorType type = input;
  for (size_t d = 0; d < windows.size(); ++d) type.shape[type.shape.size() - windows.size() + d] = windows[d].count;
  return type;
}

void check_spatial(const OpCall& call, const TensorType& input, size_t spatial) {
  if (input.shape.size() != spatial + 1 && input.shape.size() != spatial + 2)
    fail(ErrorKind::bad_input, "{}: input {} must have {} or {} dimensions", call.op->name(), to_string(input.shape),
         spatial + 1, spatial + 2);
}

WindowKernel::WindowKernel(Lowering& lowering, const TensorType& input, const std::vector<Window>& windows)
    : OpKernel(lowering, window_space(input, windows), static_cast<int>(windows.size())),
      windows_(windows),
      lead_(static_cast<int>(input.shape.size() - windows.size())) {}

Affine WindowKernel::coordinate(int d) const {
  const Window& w = windows_[static_cast<size_t>(d)];
  return window(d) * w.stride + dim(lead_ + rank() + d) * w.dilation + -w.padding;
}

bool WindowKernel::can_leave(int d) const {
  const Window& w = windows_[static_cast<size_t>(d)];
  return w.padding > 0 || (w.count - 1) * w.stride + (w.size - 1) * w.dilation - w.padding >= w.extent;
}

Ex WindowKernel::inside() {
  Ex all = integer(1, Scalar::boolean);
  bool first = true;
  for (int d = 0; d < rank(); ++d) {
    if (!can_leave(d)) continue;
    const Ex in = in_bounds(coordinate(d), windows_[static_cast<size_t>(d)].extent);
    all = first ? in : all && in;
    first = false;
  }
  return all;
}

Ex WindowKernel::load_window(int operand, Ex outside) {
  std::vector<Coord> at;
  bool leaves = false;
  for (int d = 0; d < lead_; ++d) at.emplace_back(dim(d));
  for (int d = 0; d < rank(); ++d) {
    at.emplace_back(coordinate(d));
    leaves = leaves || can_leave(d);
  }
  const Ex x = load(read(operand), at);
  return leaves ? npusim::select(inside(), x, outside) : x;
}

Ex WindowKernel::plane_index() {
  Affine sum;
  for (int d = 0; d < rank(); ++d) sum = sum * windows_[static_cast<size_t>(d)].extent + coordinate(d);
  return value(sum);
}

void WindowKernel::store_window(int operand, Ex x) { store(write(operand), x); }

}  // namespace npusim
