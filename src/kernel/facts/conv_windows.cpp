// Windows, extents and strides behind the accesses of a convolution.
#include "kernel/facts/conv_windows.h"

#include <algorithm>
#include <numeric>

#include "kernel/facts/product_axes.h"

namespace npusim {
namespace {

// Dimensions of space ++ reduce: n, group, out channel, out spatial…, in channel, kernel spatial….
struct Dims {
  size_t spatial;
  size_t out(size_t i) const { return 3 + i; }
  size_t in_channel() const { return 3 + spatial; }
  size_t kernel(size_t i) const { return 4 + spatial + i; }
};

// One spatial dimension of the image: the coordinate is out·step + kernel·dilation − pad, `extent` long.
struct Window {
  int64_t step = 1, dilation = 1, pad = 0, extent = 0, stride = 0;
};

bool guarded_window(const Contraction& c, const Guard& guard, const Dims& dims, size_t i, Window& w) {
  for (size_t d = 0; d < guard.coeffs.size(); ++d)
    if (guard.coeffs[d] != 0 && d != dims.out(i) && d != dims.kernel(i)) return false;
  if (c.a.strides[dims.out(i)] != 0 || c.a.strides[dims.kernel(i)] != 0) return false;
  w = {guard.coeffs[dims.out(i)], guard.coeffs[dims.kernel(i)], -guard.offset, guard.limit, guard.stride};
  return true;
}

Window free_window(const Kernel& k, const Dims& dims, size_t i, const std::vector<int64_t>& strides) {
  const Access& a = k.contraction->a;
  const int64_t out = a.strides[dims.out(i)], kernel = a.strides[dims.kernel(i)];
  Window w;
  w.stride = std::max<int64_t>(1, std::gcd(out, kernel));
  w.step = out / w.stride;
  w.dilation = kernel / w.stride;
  w.extent = (k.space[dims.out(i)] - 1) * w.step + (k.contraction->reduce[1 + i] - 1) * w.dilation + 1;
  int64_t next = 0;
  for (int64_t stride : strides)
    if (stride > w.stride && (next == 0 || stride < next)) next = stride;
  if (next % w.stride == 0 && next / w.stride >= w.extent && next / w.stride < w.extent + w.step)
    w.extent = next / w.stride;
  return w;
}

bool find_windows(const Kernel& k, const Dims& dims, std::vector<Window>& windows) {
  const Contraction& c = *k.contraction;
  windows.assign(dims.spatial, {});
  std::vector<bool> known(dims.spatial, false);
  for (const Guard& guard : c.a.guards) {
    bool found = false;
    for (size_t i = 0; i < dims.spatial && !found; ++i)
      if (!known[i] && (guard.coeffs[dims.out(i)] != 0 || guard.coeffs[dims.kernel(i)] != 0))
        found = known[i] = guarded_window(c, guard, dims, i, windows[i]);
    if (!found) return false;
  }
  std::vector<int64_t> strides{c.a.strides[0], c.a.strides[1], c.a.strides[dims.in_channel()]};
  for (size_t i = 0; i < dims.spatial; ++i)
    strides.push_back(known[i] ? windows[i].stride : c.a.strides[dims.kernel(i)]);
  strides[1] *= k.space[1] > 1 && c.reduce[0] == 1 ? 1 : 0;  // a group of channels is no dimension of its own
  for (size_t i = 0; i < dims.spatial; ++i) {
    Window& w = windows[i];
    if (!known[i]) w = free_window(k, dims, i, strides);
    if (c.reduce[1 + i] == 1) w.dilation = 1;
    if (k.space[dims.out(i)] == 1) w.step = std::max<int64_t>(1, w.step);
    if (w.step < 1 || w.dilation < 1 || w.stride < 1 || w.extent < 1) return false;
  }
  return true;
}

}  // namespace

std::optional<ConvWindows> conv_windows(const Kernel& k) {
  const Contraction& c = *k.contraction;
  if (k.space.size() < 4 || k.space.size() > 6 || c.reduce.size() != k.space.size() - 2) return std::nullopt;
  const Dims dims{k.space.size() - 3};
  if (!c.b.guards.empty() || depends_on(c.a, 2) || depends_on(c.b, 0)) return std::nullopt;
  for (size_t i = 0; i < dims.spatial; ++i)
    if (depends_on(c.b, static_cast<int>(dims.out(i)))) return std::nullopt;
  for (const std::vector<int64_t>* extents : {&k.space, &c.reduce})
    if (element_count(*extents) == 0) return std::nullopt;
  std::vector<Window> windows;
  if (!find_windows(k, dims, windows)) return std::nullopt;
  ConvWindows s;
  s.batch = k.space[0], s.groups = k.space[1], s.out_channels = k.space[2], s.in_channels = c.reduce[0];
  const int64_t group = c.a.strides[1], channel = c.a.strides[dims.in_channel()];
  if (s.groups > 1 && s.in_channels > 1 && group != s.in_channels * channel) return std::nullopt;
  s.image_strides = {c.a.strides[0], s.in_channels > 1 ? channel : s.groups > 1 ? group : 1};
  s.weight_strides = {c.b.strides[1], c.b.strides[2], c.b.strides[dims.in_channel()]};
  for (size_t i = 0; i < dims.spatial; ++i) {
    const Window& w = windows[i];
    s.input.push_back(w.extent);
    s.output.push_back(k.space[dims.out(i)]);
    s.kernel.push_back(c.reduce[1 + i]);
    s.stride.push_back(w.step);
    s.dilation.push_back(w.dilation);
    s.pad_low.push_back(w.pad);
    s.pad_high.push_back((s.output[i] - 1) * w.step + (s.kernel[i] - 1) * w.dilation + 1 - w.extent - w.pad);
    s.image_strides.push_back(w.stride);
    s.weight_strides.push_back(c.b.strides[dims.kernel(i)]);
  }
  return s;
}

std::vector<TapRange> taps_within(const ConvWindows& w, size_t dim) {
  const int64_t taps = w.kernel[dim], dilation = w.dilation[dim];
  std::vector<TapRange> ranges;
  for (int64_t out = 0; out < w.output[dim]; ++out) {
    const int64_t base = out * w.stride[dim] - w.pad_low[dim], left = w.input[dim] - base;
    const int64_t begin = std::min(base < 0 ? (dilation - 1 - base) / dilation : 0, taps);
    const int64_t end = left > 0 ? std::min((left - 1) / dilation + 1, taps) : 0;
    ranges.push_back({begin, std::max(begin, end), base + begin * dilation});
  }
  return ranges;
}

bool is_whole(const Kernel& k, const ConvWindows& w) {
  const Access& image = k.contraction->a;
  int64_t last =
      image.offset + (w.batch - 1) * w.image_strides[0] + (w.groups * w.in_channels - 1) * w.image_strides[1];
  for (size_t i = 0; i < w.input.size(); ++i) last += (w.input[i] - 1) * w.image_strides[2 + i];
  return image.offset >= 0 && last < k.args[static_cast<size_t>(image.arg)].elements;
}

}  // namespace npusim
