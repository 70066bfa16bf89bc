// Recovering a convolution's geometry from its accesses, and running it through oneDNN.
#include "backends/cpu/conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "backends/cpu/contraction_epilogue.h"
#include "backends/cpu/contraction_simd.h"
#include "backends/cpu/depthwise.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/winograd.h"
#include "base/error.h"

namespace npusim::cpu {
namespace {

// Dimensions of space ++ reduce: n, group, out channel, out spatial…, in channel, kernel spatial….
struct Dims {
  size_t spatial;
  size_t out(size_t i) const { return 3 + i; }
  size_t in_channel() const { return 3 + spatial; }
  size_t kernel(size_t i) const { return 4 + spatial + i; }
};

// Strides of a dense tensor over [n, channel, spatial…].
std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents, bool channels_last) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  if (channels_last) strides[1] = stride, stride *= extents[1];
  for (size_t d = extents.size(); d-- > 2;) strides[d] = stride, stride *= extents[d];
  if (!channels_last) strides[1] = stride, stride *= extents[1];
  strides[0] = stride;
  return strides;
}

// oneDNN knows layouts by all their strides, those of extents of 1 included: they follow the layout the others have.
std::vector<int64_t> named_layout(std::vector<int64_t> strides, const std::vector<int64_t>& extents) {
  for (bool channels_last : {true, false}) {
    const std::vector<int64_t> dense = dense_strides(extents, channels_last);
    bool same = true;
    for (size_t d = 0; d < extents.size(); ++d) same &= extents[d] == 1 || strides[d] == dense[d];
    if (same) return dense;
  }
  return strides;
}

std::vector<int64_t> tensor_extents(int64_t n, int64_t channels, const std::vector<int64_t>& spatial) {
  std::vector<int64_t> extents{n, channels};
  extents.insert(extents.end(), spatial.begin(), spatial.end());
  return extents;
}

// Strides over [n, channel, spatial…] of an access over the kernel's space; false when group and channel do not join,
// or the access is more than strides.
bool output_strides(const Kernel& k, const Access& access, const std::vector<int64_t>& extents,
                    std::vector<int64_t>& strides) {
  if (!access.guards.empty() || !access.terms.empty()) return false;
  const int64_t groups = k.space[1], channels = k.space[2];
  if (groups > 1 && channels > 1 && access.strides[1] != channels * access.strides[2]) return false;
  strides = {access.strides[0], channels > 1 ? access.strides[2] : access.strides[1]};
  strides.insert(strides.end(), access.strides.begin() + 3, access.strides.end());
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] > 1 && strides[d] <= 0) return false;
  strides = named_layout(strides, extents);
  return true;
}

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

// Without padding the image's extent is not written anywhere: it is what the next larger stride leaves room for, when
// that fits the windows, and else what they touch.
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
    const int64_t reach = (c.reduce[1 + i] - 1) * w.dilation + 1;
    if (w.pad >= reach || w.pad < 0) return false;  // oneDNN's windows touch the image
    if (w.step < 1 || w.dilation < 1 || w.stride < 1 || w.extent < 1) return false;
  }
  return true;
}

// Strides along extents of 1 become what the rest spans; false when the weight is the same along a dimension.
bool name_weight_strides(ConvSpec& s) {
  std::vector<int64_t> extents{s.groups, s.out_channels, s.in_channels};
  extents.insert(extents.end(), s.kernel.begin(), s.kernel.end());
  int64_t span = 1;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] > 1 && s.weight_strides[d] == 0) return false;
    if (extents[d] > 1) span = std::max(span, extents[d] * std::abs(s.weight_strides[d]));
  }
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] == 1) s.weight_strides[d] = span;
  return true;
}

bool find_geometry(const Kernel& k, ConvSpec& s) {
  const Contraction& c = *k.contraction;
  if (k.space.size() < 4 || k.space.size() > 6 || c.reduce.size() != k.space.size() - 2) return false;
  const Dims dims{k.space.size() - 3};
  if (!c.b.guards.empty() || depends_on(c.a, 2) || depends_on(c.b, 0)) return false;
  for (size_t i = 0; i < dims.spatial; ++i)
    if (depends_on(c.b, static_cast<int>(dims.out(i)))) return false;
  for (const std::vector<int64_t>* extents : {&k.space, &c.reduce})
    if (element_count(*extents) == 0) return false;
  std::vector<Window> windows;
  if (!find_windows(k, dims, windows)) return false;
  s.batch = k.space[0], s.groups = k.space[1], s.out_channels = k.space[2], s.in_channels = c.reduce[0];
  const int64_t group = c.a.strides[1], channel = c.a.strides[dims.in_channel()];
  if (s.groups > 1 && s.in_channels > 1 && group != s.in_channels * channel) return false;
  s.src_strides = {c.a.strides[0], s.in_channels > 1 ? channel : s.groups > 1 ? group : 1};
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
    if (s.pad_high[i] <= -w.step || s.pad_high[i] > (s.kernel[i] - 1) * w.dilation) return false;
    s.src_strides.push_back(w.stride);
    s.weight_strides.push_back(c.b.strides[dims.kernel(i)]);
  }
  const auto extents = tensor_extents(s.batch, s.groups * s.in_channels, s.input);
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] > 1 && s.src_strides[d] < 1) return false;
  if (!name_weight_strides(s)) return false;
  s.src_strides = named_layout(s.src_strides, extents);
  return true;
}

// Pixels, their channels side by side, times a matrix: products run faster than convolutions.
bool is_pointwise(const ConvSpec& s) {
  auto all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  return s.groups == 1 && s.src_strides[1] == 1 && all(s.kernel, 1) && all(s.pad_low, 0);
}

// Windows side by side, as a vision transformer's: a product too, for which oneDNN would copy the image. Worth it where
// a window's row is a stretch of memory.
bool is_patches(const ConvSpec& s) {
  const int64_t row = s.kernel.back() * (s.src_strides[1] == 1 ? s.in_channels : 1);
  const auto none = [](int64_t pad) { return pad == 0; };
  return s.groups == 1 && s.kernel == s.stride && row >= 8 && s.src_strides.back() <= s.in_channels &&
         std::all_of(s.pad_low.begin(), s.pad_low.end(), none);
}

// Where the store goes and what is added on the way; false when oneDNN cannot write the output itself.
bool fuse_epilogue(const Kernel& k, std::span<const Binding> args, ConvSpec& s, PrimitiveMemory& m) {
  if (k.stores.size() != 1 || k.stores[0].accumulate) return false;
  const Access& to = k.stores[0].access;
  const auto extents = tensor_extents(s.batch, s.groups * s.out_channels, s.output);
  auto at = [&](const Access& a) { return static_cast<float*>(args[static_cast<size_t>(a.arg)].data) + a.offset; };
  auto is_f32 = [&](const Access& a) { return k.args[static_cast<size_t>(a.arg)].dtype == DType::f32; };
  auto ops = match_post_ops(k, k.stores[0].expr);
  if (!is_f32(to) || !ops || !output_strides(k, to, extents, s.dst_strides)) return false;
  for (const PostOp& op : *ops) {
    if (op.add < 0) continue;
    const Access& access = k.accesses[static_cast<size_t>(op.add)];
    std::vector<int64_t> strides;
    if (!is_f32(access) || !access.guards.empty() || !access.terms.empty()) return false;
    if (output_strides(k, access, extents, strides)) {
      if (strides != s.dst_strides) return false;  // oneDNN adds where it writes, whatever the layout it is given
      s.add_strides.push_back(strides);
      m.adds.push_back(at(access));
      continue;
    }
    // Along the channels alone: the bias when it comes first.
    const bool channels =
        (s.out_channels == 1 || access.strides[2] == 1) && (s.groups == 1 || access.strides[1] == s.out_channels);
    const bool only = access.strides[0] == 0 &&
                      std::all_of(access.strides.begin() + 3, access.strides.end(), [](int64_t d) { return d == 0; });
    if (!channels || !only) return false;
    if (&op == ops->data()) {
      s.bias = true;
      m.bias = at(access);
    } else {
      s.add_strides.emplace_back();
      m.adds.push_back(at(access));
    }
  }
  if (s.bias) ops->erase(ops->begin());
  s.ops = std::move(*ops);
  m.dst = at(to);
  return true;
}

// A copy of the image, stored with strides `from`, into dense float32 channels last.
Kernel turn_image(const Kernel& kernel, const std::vector<int64_t>& extents, const std::vector<int64_t>& from) {
  const Access& image = kernel.contraction->a;
  std::vector<size_t> order{0};  // [n, spatial…, channel]
  for (size_t d = 2; d < extents.size(); ++d) order.push_back(d);
  order.push_back(1);
  Kernel k;
  k.name = "turn_image";
  Access load{0, image.offset, {}, {}, {}};
  for (size_t d : order) {
    k.space.push_back(extents[d]);
    load.strides.push_back(from[d]);
  }
  k.args = {kernel.args[static_cast<size_t>(image.arg)], {DType::f32, element_count(extents), true, -1}};
  k.accesses = {load};
  k.exprs = {{.op = ExprOp::load, .type = Scalar::f32}};
  k.stores = {{{1, 0, row_major_strides(k.space), {}, {}}, 0, false}};
  return k;
}

class ConvStep final : public Step {
 public:
  // `turned` is the image as stored when the convolution wants it channels last and it is not; else empty.
  ConvStep(const Kernel& kernel, std::span<const Binding> args, const Context& context,
           std::unique_ptr<BoundPrimitive> conv, const ConvSpec& spec, bool fused, int64_t elements,
           const std::vector<int64_t>& turned)
      : cache_(context.primitives), conv_(std::move(conv)), threads_(usable_threads(kernel, context)) {
    const Access& image = kernel.contraction->a;
    dtype_ = kernel.args[static_cast<size_t>(image.arg)].dtype;
    image_ = static_cast<const std::byte*>(args[static_cast<size_t>(image.arg)].data) +
             image.offset * static_cast<int64_t>(dtype_size(dtype_));
    elements_ = dtype_ == DType::f32 && turned.empty() ? 0 : elements;
    if (!turned.empty()) {
      const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
      elements_ = element_count(extents);
      turn_ = std::make_unique<Loops>(turn_image(kernel, extents, turned), threads_);
      turn_args_ = {args[static_cast<size_t>(image.arg)].data, nullptr};
    }
    src_bytes_ = (static_cast<size_t>(elements_) * 4 + 63) / 64 * 64;
    if (!fused) {
      const auto extents = tensor_extents(spec.batch, spec.groups * spec.out_channels, spec.output);
      dst_bytes_ = (static_cast<size_t>(element_count(extents)) * 4 + 63) / 64 * 64;
      std::vector<int64_t> strides{spec.dst_strides[0], spec.out_channels * spec.dst_strides[1], spec.dst_strides[1]};
      strides.insert(strides.end(), spec.dst_strides.begin() + 2, spec.dst_strides.end());
      epilogue_ = make_epilogue(kernel, strides);
      epilogue_args_ = epilogue_args(epilogue_, args);
      loops_ = std::make_unique<Loops>(epilogue_.kernel, threads_);
    }
    scratch_bytes_ = src_bytes_ + dst_bytes_ + conv_->scratch_bytes;
  }

  void set_scratch(void* scratch) override {
    Step::set_scratch(scratch);
    void* dst = scratch_ + src_bytes_;
    if (loops_) epilogue_args_[static_cast<size_t>(epilogue_.leaf)] = dst;
    if (turn_) turn_args_[1] = scratch_;
    conv_->rebind(scratch_ + src_bytes_ + dst_bytes_, elements_ ? scratch_ : nullptr, loops_ ? dst : nullptr);
  }

  void run() override {
    if (turn_) {
      turn_->run(turn_args_.data());
    } else if (elements_) {
      on_threads(threads_, [this](int thread) {
        const int64_t begin = elements_ * thread / threads_, end = elements_ * (thread + 1) / threads_;
        widen(dtype_, image_ + begin * static_cast<int64_t>(dtype_size(dtype_)), end - begin,
              reinterpret_cast<float*>(scratch_) + begin);
      });
    }
    conv_->run();
    if (loops_ && !loops_->run(epilogue_args_.data()))
      fail(ErrorKind::bad_input, "{}: {}", epilogue_.kernel.name, loops_->trap_message());
  }

  std::string describe() const override {
    return fmt::format("conv {}{}{}", conv_->implementation(),
                       turn_       ? " turned"
                       : elements_ ? " widened"
                                   : "",
                       loops_ ? " + epilogue" : "");
  }

 private:
  std::shared_ptr<PrimitiveCache> cache_;
  std::unique_ptr<BoundPrimitive> conv_;
  int threads_;
  DType dtype_;
  const std::byte* image_;
  int64_t elements_;  // of the image to widen
  size_t src_bytes_ = 0, dst_bytes_ = 0;
  EpilogueKernel epilogue_;
  std::vector<void*> epilogue_args_;
  std::unique_ptr<Loops> loops_;
  std::unique_ptr<Loops> turn_;
  std::vector<void*> turn_args_;
};

// nullptr when oneDNN has no implementation.
std::unique_ptr<Step> make_direct_step(const Kernel& kernel, std::span<const Binding> args, const Context& context,
                                       ConvSpec spec) {
  const Contraction& c = *kernel.contraction;
  const DType image_type = kernel.args[static_cast<size_t>(c.a.arg)].dtype,
              weight_type = kernel.args[static_cast<size_t>(c.b.arg)].dtype;
  PrimitiveMemory memory;
  // What the windows span in memory; widened as a whole.
  const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
  int64_t elements = 1;
  for (size_t d = 0; d < extents.size(); ++d) elements += extents[d] > 1 ? (extents[d] - 1) * spec.src_strides[d] : 0;
  if (c.a.offset + elements > kernel.args[static_cast<size_t>(c.a.arg)].elements) return nullptr;
  memory.src =
      static_cast<const float*>(args[static_cast<size_t>(c.a.arg)].data) + (image_type == DType::f32 ? c.a.offset : 0);

  // A 16-bit weight is widened once, and a flipped one (transposed convolution) turned, dense in the order of its
  // strides' dimensions.
  std::vector<float> wide;
  memory.weight = static_cast<const float*>(args[static_cast<size_t>(c.b.arg)].data) + c.b.offset;
  const auto backwards = [](const std::vector<int64_t>& strides) {
    return std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; });
  };
  if (backwards(spec.src_strides)) return nullptr;
  if (weight_type != DType::f32 || backwards(spec.weight_strides)) {
    std::vector<int64_t> all = kernel.space;
    all.insert(all.end(), c.reduce.begin(), c.reduce.end());
    std::vector<int> depth;
    for (size_t d = kernel.space.size(); d < all.size(); ++d) depth.push_back(static_cast<int>(d));
    const Operand weight = make_operand(c.b, weight_type, args[static_cast<size_t>(c.b.arg)].data,
                                        {Axis{}, make_axis(all, {1, 2}), make_axis(all, depth)});
    wide.resize(static_cast<size_t>(weight.size(1) * weight.size(2)));
    pack(weight, {0, 0, weight.size(1), 0, weight.size(2)}, wide.data(), weight.size(2));
    memory.weight = weight.data + c.b.offset * 2;  // names it in the cache
    std::vector<int64_t> dense{spec.groups, spec.out_channels, spec.in_channels};
    dense.insert(dense.end(), spec.kernel.begin(), spec.kernel.end());
    spec.weight_strides = row_major_strides(dense);
  }
  // oneDNN has fast code for dense channels last and, with a channels-first image or the strided view a 1x1 window of
  // stride 2 sees, only its reference.
  std::vector<int64_t> turned;
  const auto turn = [&] {
    const std::vector<int64_t> dense = dense_strides(extents, true);
    bool same = true;
    for (size_t d = 0; d < extents.size(); ++d) same = same && (extents[d] == 1 || spec.src_strides[d] == dense[d]);
    if (same || !turned.empty()) return;
    turned = spec.src_strides;
    spec.src_strides = dense;
  };
  const bool fused = fuse_epilogue(kernel, args, spec, memory);
  if (fused && spec.dst_strides[1] == 1) turn();
  auto conv =
      fused ? make_convolution(*context.primitives, spec, memory, wide.empty() ? nullptr : wide.data()) : nullptr;
  if (conv) return std::make_unique<ConvStep>(kernel, args, context, std::move(conv), spec, true, elements, turned);
  turn();
  spec.bias = false;
  spec.ops.clear();
  spec.add_strides.clear();
  memory.adds.clear();
  const bool channels_last = spec.src_strides[1] == 1;
  spec.dst_strides =
      dense_strides(tensor_extents(spec.batch, spec.groups * spec.out_channels, spec.output), channels_last);
  conv = make_convolution(*context.primitives, spec, memory, wide.empty() ? nullptr : wide.data());
  if (!conv) return nullptr;
  return std::make_unique<ConvStep>(kernel, args, context, std::move(conv), spec, false, elements, turned);
}

}  // namespace

std::unique_ptr<Step> make_conv_step(const Kernel& kernel, std::span<const Binding> args, const Context& context) {
  const Contraction& c = *kernel.contraction;
  ConvSpec spec;
  if (!context.primitives || !args[static_cast<size_t>(c.b.arg)].constant || !find_geometry(kernel, spec))
    return nullptr;
  const DType image_type = kernel.args[static_cast<size_t>(c.a.arg)].dtype,
              weight_type = kernel.args[static_cast<size_t>(c.b.arg)].dtype;
  for (DType type : {image_type, weight_type})
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16) return nullptr;
  if (is_pointwise(spec) || is_patches(spec)) return nullptr;
  // oneDNN would need a 16-bit image widened before and the result rounded after, in passes of their own.
  if (image_type != DType::f32)
    if (auto step = make_depthwise_step(kernel, args, context, spec)) return step;

  auto direct = make_direct_step(kernel, args, context, spec);
  if (!direct) return nullptr;
  if (auto winograd = make_winograd_step(kernel, args, context, spec, direct)) return winograd;
  return direct;
}

}  // namespace npusim::cpu
