// Windows of images as columns and back: im2col (unfold) and col2im (fold).
#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "ops/overlap.h"
#include "ops/view.h"

namespace npusim {
namespace {

// Images [n, c, h, w] or [c, h, w]; columns [n, c·kh·kw, oh·ow], or without n.
struct Windows {
  int64_t kernel[2], dilation[2], padding[2], stride[2], image[2], out[2];
};

Windows windows(const OpCall& call, int64_t height, int64_t width) {
  Windows w{};
  const std::pair<std::string_view, int64_t*> lists[] = {
      {"kernel_size", w.kernel}, {"dilation", w.dilation}, {"padding", w.padding}, {"stride", w.stride}};
  for (auto [name, to] : lists) {
    const auto list = call.ints(name, 2);
    if (list.size() != 2) fail(ErrorKind::bad_input, "{}: {} must have 2 elements", call.op->name(), name);
    std::copy(list.begin(), list.end(), to);
  }
  w.image[0] = height;
  w.image[1] = width;
  for (int d : {0, 1}) {
    if (w.stride[d] < 1 || w.dilation[d] < 1 || w.kernel[d] < 1)
      fail(ErrorKind::bad_input, "{}: kernel, stride and dilation must be positive", call.op->name());
    w.out[d] = (w.image[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1) / w.stride[d] + 1;
    if (w.image[d] + 2 * w.padding[d] < w.dilation[d] * (w.kernel[d] - 1) + 1)
      fail(ErrorKind::bad_input, "{}: the kernel is larger than the image", call.op->name());
  }
  return w;
}

Windows image_windows(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  if (self.size() != 3 && self.size() != 4)
    fail(ErrorKind::bad_input, "{}: expected an image, found {}", call.op->name(), to_string(self));
  return windows(call, self[self.size() - 2], self.back());
}

std::vector<TensorType> infer_im2col(const OpCall& call) {
  const TensorType& self = call.type("self");
  const Windows w = image_windows(call);
  Shape shape(self.shape.begin(), self.shape.end() - 2);
  shape.back() *= w.kernel[0] * w.kernel[1];
  shape.push_back(w.out[0] * w.out[1]);
  return {{self.dtype, shape}};
}

void lower_im2col(const OpCall& call, Lowering& lowering) {
  const Shape& self = call.type("self").shape;
  const Windows w = image_windows(call);
  const size_t lead = self.size() - 3;
  Shape space(self.begin(), self.end() - 2);
  space.insert(space.end(), {w.kernel[0], w.kernel[1], w.out[0], w.out[1]});
  OpKernel k(lowering, space);
  const int from = k.read(lowering.input(0));
  const int c = static_cast<int>(lead);
  std::vector<Coord> at = coordinates(identity_coordinates(lead + 1));
  Ex inside = k.integer(1, Scalar::boolean);
  for (int d : {0, 1}) {
    const Affine position = k.dim(c + 3 + d) * w.stride[d] + k.dim(c + 1 + d) * w.dilation[d] + (-w.padding[d]);
    at.emplace_back(position);
    if (w.padding[d] > 0) inside = inside && k.in_bounds(position, w.image[d]);
  }
  Ex x = k.load(from, at);
  if (w.padding[0] > 0 || w.padding[1] > 0) x = select(inside, x, k.integer(0, x.type()));
  std::vector<Coord> to = coordinates(identity_coordinates(lead));
  to.emplace_back(k.dim(c) * (w.kernel[0] * w.kernel[1]) + k.dim(c + 1) * w.kernel[1] + k.dim(c + 2));
  to.emplace_back(k.dim(c + 3) * w.out[1] + k.dim(c + 4));
  k.store(k.write(lowering.output(0)), to, x);
  k.done("im2col");
}

Windows column_windows(const OpCall& call) {
  const Shape& self = call.type("self").shape;
  const auto size = call.ints("output_size", 2);
  if (size.size() != 2 || (self.size() != 2 && self.size() != 3))
    fail(ErrorKind::bad_input, "{}: {} columns for an image of {}", call.op->name(), to_string(self), to_string(size));
  const Windows w = windows(call, size[0], size[1]);
  if (self.back() != w.out[0] * w.out[1] || self[self.size() - 2] % (w.kernel[0] * w.kernel[1]) != 0)
    fail(ErrorKind::bad_input, "{}: {} does not hold {}x{} windows", call.op->name(), to_string(self), w.out[0],
         w.out[1]);
  return w;
}

std::vector<TensorType> infer_col2im(const OpCall& call) {
  const TensorType& self = call.type("self");
  const Windows w = column_windows(call);
  Shape shape(self.shape.begin(), self.shape.end() - 1);
  shape.back() /= w.kernel[0] * w.kernel[1];
  shape.insert(shape.end(), {w.image[0], w.image[1]});
  return {{self.dtype, shape}};
}

void lower_col2im(const OpCall& call, Lowering& lowering) {
  const Windows w = column_windows(call);
  const TensorType& image = call.outputs[0];
  Shape columns(image.shape.begin(), image.shape.end() - 2);
  columns.insert(columns.end(), {w.kernel[0], w.kernel[1], w.out[0], w.out[1]});
  const int view = lowering.temporary({image.dtype, columns});
  lower_flat(lowering, "view", lowering.input(0), view);
  Window dims[2];
  for (int d : {0, 1}) dims[d] = {w.image[d], w.kernel[d], w.stride[d], w.padding[d], w.dilation[d], w.out[d]};
  lower_overlap(lowering, "col2im", dims, view, -1, lowering.output(0));
}

constexpr OpRecord summed(OpRecord record) {
  record.tolerance = 4;
  return record;
}

constexpr OpRecord records[] = {
    fresh(view("im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
               infer_im2col, lower_im2col)),
    summed(fresh(view("col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
                      "int[2] stride) -> Tensor",
                      infer_col2im, lower_col2im))),
};

}  // namespace

std::span<const OpRecord> im2col_ops() { return records; }

}  // namespace npusim
