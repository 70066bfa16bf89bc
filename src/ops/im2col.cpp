// Windows of images as columns and back: im2col (unfold) and col2im (fold).
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/formula.h"
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
    const Affine place = k.dim(c + 3 + d) * w.stride[d] + k.dim(c + 1 + d) * w.dilation[d] + (-w.padding[d]);
    at.emplace_back(place);
    if (w.padding[d] > 0) inside = inside && k.in_bounds(place, w.image[d]);
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

// One dimension of an image as the sums of its windows. Element j of window w falls on pixel j·dilation + w·stride,
// counted from the padding's first one. The pixels that any element falls on are a·dilation + q·stride, each for one
// a < residues and one q; on each fall the elements a + r·period of the windows q − r·step, for a few r.
struct Overlap {
  int64_t residues, period, step;
  int64_t first, places;  // q runs from `first`
  int64_t overlaps;       // r
  bool covers;            // every pixel is one of those
};

Overlap overlap(const Windows& w, int d) {
  const int64_t common = std::gcd(w.dilation[d], w.stride[d]);
  Overlap o{};
  o.period = w.stride[d] / common;
  o.step = w.dilation[d] / common;
  o.residues = std::min(o.period, w.kernel[d]);
  o.first = -((o.residues - 1) * w.dilation[d] / w.stride[d]);
  o.places = (w.image[d] - 1 + w.padding[d]) / w.stride[d] + 1 - o.first;
  o.overlaps = (w.kernel[d] + o.period - 1) / o.period;
  o.covers = o.residues == w.stride[d];
  return o;
}

// Each pixel sums the few elements that fall on it.
void lower_col2im(const OpCall& call, Lowering& lowering) {
  const Windows w = column_windows(call);
  const TensorType& image = call.outputs[0];
  const size_t lead = image.shape.size() - 2;
  const Overlap o[2] = {overlap(w, 0), overlap(w, 1)};
  Shape columns(image.shape.begin(), image.shape.end() - 2), space = columns;
  columns.insert(columns.end(), {w.kernel[0], w.kernel[1], w.out[0], w.out[1]});
  space.insert(space.end(), {o[0].places, o[0].residues, o[1].places, o[1].residues, o[0].overlaps, o[1].overlaps});
  const int view = lowering.temporary({image.dtype, columns});
  lower_flat(lowering, "view", lowering.input(0), view);
  const bool covers = o[0].covers && o[1].covers;
  const int zeros = covers ? -1 : lowering.temporary(image);
  if (!covers) {
    OpKernel zero(lowering, image.shape);
    zero.store(zero.write(zeros), zero.integer(0, scalar_of(image.dtype)));
    zero.done("zeros");
  }
  OpKernel k(lowering, space, 2);
  const int before = covers ? -1 : k.read(zeros), from = k.read(view);
  Ex inside = k.integer(1, Scalar::boolean);
  std::vector<Coord> at = coordinates(identity_coordinates(lead)), to = at, windows;
  for (int d : {0, 1}) {
    const int q = static_cast<int>(lead) + 2 * d, r = static_cast<int>(lead) + 4 + d;
    const Affine place = k.dim(q) + o[d].first, residue = k.dim(q + 1);
    const Affine element = residue + k.dim(r) * o[d].period, window = place + k.dim(r) * -o[d].step;
    inside = inside && k.in_bounds(element, w.kernel[d]) && k.in_bounds(window, w.out[d]);
    at.emplace_back(element);
    windows.emplace_back(window);
    to.emplace_back(residue * w.dilation[d] + place * w.stride[d] + (-w.padding[d]));
  }
  at.insert(at.end(), windows.begin(), windows.end());
  const Ex x = k.load(from, at);
  const Ex sum = k.reduce(Reduction::sum, select(inside, x, k.integer(0, x.type())));
  k.store(k.write(lowering.output(0), before), to, sum);
  k.done("col2im");
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
