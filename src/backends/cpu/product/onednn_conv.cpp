// Running a convolution through oneDNN, whatever its image's type and layout.
#include "backends/cpu/product/onednn_conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/nan_guard.h"
#include "backends/cpu/product/onednn.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/product/streamed.h"
#include "base/error.h"
#include "base/threads.h"

namespace npusim::cpu {
namespace {

// Where the store goes and what is added on the way, in float32 or the type of the operands; false when oneDNN cannot
// write the output itself, or not without losing NaN.
bool fuse_epilogue(const Problem& p, ConvSpec& s, PrimitiveMemory& m) {
  if (!p.chain) return false;
  const Kernel& k = p.kernel;
  const Access& to = k.stores[0].access;
  const auto extents = tensor_extents(s.batch, s.groups * s.out_channels, s.output);
  auto type_of = [&](const Access& a) { return k.args[static_cast<size_t>(a.arg)].dtype; };
  auto at = [&](const Access& a) {
    return static_cast<std::byte*>(p.args[static_cast<size_t>(a.arg)].data) +
           a.offset * static_cast<int64_t>(dtype_size(type_of(a)));
  };
  auto is_known = [&](const Access& a) { return type_of(a) == DType::f32 || type_of(a) == s.types.operands; };
  if (!is_known(to) || !output_strides(k, to, extents, s.dst_strides)) return false;
  // Into padded pixels oneDNN writes with its reference only.
  if (s.dst_strides != dense_strides(extents, true) && s.dst_strides != dense_strides(extents, false)) return false;
  std::vector<EpilogueOp> ops = *p.chain;
  for (const EpilogueOp& op : ops) {
    if (op.add < 0) continue;
    const Access& access = k.accesses[static_cast<size_t>(op.add)];
    std::vector<int64_t> strides;
    if (!is_known(access) || !access.guards.empty() || !access.terms.empty()) return false;
    if (!(has_one_pixel(s) && &op == ops.data()) && output_strides(k, access, extents, strides)) {
      if (strides != s.dst_strides) return false;  // oneDNN adds where it writes, whatever the layout it is given
      s.add_strides.push_back(strides);
      s.types.adds.push_back(type_of(access));
      m.adds.push_back(at(access));
      continue;
    }
    // Along the channels alone: the bias when it comes first.
    const bool channels =
        (s.out_channels == 1 || access.strides[2] == 1) && (s.groups == 1 || access.strides[1] == s.out_channels);
    bool only = true;
    for (size_t d = 0; d < k.space.size(); ++d)
      only = only && (d == 1 || d == 2 || k.space[d] == 1 || access.strides[d] == 0);
    if (!channels || !only) return false;
    if (&op == ops.data()) {
      s.bias = true;
      s.types.bias = type_of(access);
      m.bias = at(access);
    } else {
      s.add_strides.emplace_back();
      s.types.adds.push_back(type_of(access));
      m.adds.push_back(at(access));
    }
  }
  if (s.bias) ops.erase(ops.begin());
  if (may_lose_nan(ops) && !(p.context.sees_nan && repeatable(k))) return false;
  s.ops = std::move(ops);
  s.types.dst = type_of(to);
  m.dst = at(to);
  return true;
}

// A copy of the image, stored with strides `from`, into dense channels last of type `to`.
Kernel turn_image(const Kernel& kernel, const std::vector<int64_t>& extents, const std::vector<int64_t>& from,
                  DType to) {
  const Access& image = kernel.contraction->a;
  std::vector<size_t> order{0};  // [n, spatial…, channel]
  for (size_t d = 2; d < extents.size(); ++d) order.push_back(d);
  order.push_back(1);
  std::vector<int64_t> space, strides;
  for (size_t d : order) {
    space.push_back(extents[d]);
    strides.push_back(from[d]);
  }
  return dense_copy(kernel.args[static_cast<size_t>(image.arg)], image.offset, space, strides, to);
}

class ConvStep final : public BoundStep {
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
    const DType src = spec.types.operands;
    elements_ = dtype_ == src && turned.empty() ? 0 : elements;
    if (!turned.empty()) {
      const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
      elements_ = element_count(extents);
      turn_ = std::make_unique<Loops>(turn_image(kernel, extents, turned, src), threads_);
      turn_args_ = {args[static_cast<size_t>(image.arg)].data, nullptr};
    }
    src_bytes_ = (static_cast<size_t>(elements_) * dtype_size(src) + 63) / 64 * 64;
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
    BoundStep::set_scratch(scratch);
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

}  // namespace

Answer make_onednn_conv_step(Problem& p) {
  if (!p.conv.declined.empty()) return decline(p.conv.declined);
  const Kernel& kernel = p.kernel;
  const std::span<const Binding> args = p.args;
  const Context& context = p.context;
  const Contraction& c = *kernel.contraction;
  ConvSpec spec = p.conv.spec;
  const DType image_type = kernel.args[static_cast<size_t>(c.a.arg)].dtype,
              weight_type = kernel.args[static_cast<size_t>(c.b.arg)].dtype;
  spec.types.operands = image_type == weight_type && context.multiplies(image_type) ? image_type : DType::f32;
  PrimitiveMemory memory;
  // What the windows span in memory; widened as a whole.
  const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
  int64_t elements = 1;
  for (size_t d = 0; d < extents.size(); ++d) elements += extents[d] > 1 ? (extents[d] - 1) * spec.image_strides[d] : 0;
  if (c.a.offset + elements > kernel.args[static_cast<size_t>(c.a.arg)].elements)
    return decline("windows whose image reaches beyond its tensor");
  auto at = [&](const Access& a, DType type) {
    return static_cast<const std::byte*>(args[static_cast<size_t>(a.arg)].data) +
           a.offset * static_cast<int64_t>(dtype_size(type));
  };
  memory.src = at(c.a, image_type);

  // A 16-bit weight is widened once, and a flipped one (transposed convolution) turned, dense in the order of its
  // strides' dimensions.
  std::vector<float> wide;
  memory.weight = at(c.b, weight_type);
  const auto backwards = [](const std::vector<int64_t>& strides) {
    return std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; });
  };
  if (backwards(spec.image_strides)) return decline("an image that runs backwards");
  if (weight_type != spec.types.operands || backwards(spec.weight_strides)) {
    std::vector<int64_t> all = kernel.space;
    all.insert(all.end(), c.reduce.begin(), c.reduce.end());
    std::vector<int> depth;
    for (size_t d = kernel.space.size(); d < all.size(); ++d) depth.push_back(static_cast<int>(d));
    const Operand weight = make_operand(c.b, weight_type, args[static_cast<size_t>(c.b.arg)].data,
                                        {Axis{}, make_axis(all, {1, 2}), make_axis(all, depth)});
    wide.resize(static_cast<size_t>(weight.size(1) * weight.size(2)));
    pack(weight, {0, 0, weight.size(1), 0, weight.size(2)}, wide.data(), weight.size(2));
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
    for (size_t d = 0; d < extents.size(); ++d) same = same && (extents[d] == 1 || spec.image_strides[d] == dense[d]);
    if (same || !turned.empty()) return;
    turned = spec.image_strides;
    spec.image_strides = dense;
  };
  const bool fused = fuse_epilogue(p, spec, memory);
  if (fused && spec.dst_strides[1] == 1) turn();
  // Arithmetic for bf16 takes channels in pairs, AMX 32 of them: what lies behind the last one is multiplied by 0.
  const auto make_step = [&](std::unique_ptr<BoundPrimitive> primitive, bool whole) -> std::unique_ptr<BoundStep> {
    const int64_t together = primitive->implementation().find("amx") == std::string::npos ? 2 : 32;
    auto step = std::make_unique<ConvStep>(kernel, args, context, std::move(primitive), spec, whole, elements, turned);
    if (spec.types.operands != DType::bf16 || spec.in_channels % together == 0) return step;
    return guard_finite(std::move(step), make_streamed_step(p), image_type, memory.src, elements, context);
  };
  auto conv =
      fused ? make_convolution(*context.primitives, spec, memory, wide.empty() ? nullptr : wide.data()) : nullptr;
  if (conv) {
    auto step = make_step(std::move(conv), true);
    if (!may_lose_nan(spec.ops)) return accept(std::move(step));
    return accept(guard_nan(std::move(step), make_streamed_step(p)));
  }
  turn();
  spec.bias = false;
  spec.ops.clear();
  spec.add_strides.clear();
  spec.types = {.operands = spec.types.operands, .adds = {}};
  memory.adds.clear();
  const bool channels_last = spec.image_strides[1] == 1;
  spec.dst_strides =
      dense_strides(tensor_extents(spec.batch, spec.groups * spec.out_channels, spec.output), channels_last);
  conv = make_convolution(*context.primitives, spec, memory, wide.empty() ? nullptr : wide.data());
  if (!conv) return decline("oneDNN has no implementation");
  return accept(make_step(std::move(conv), false));
}

}  // namespace npusim::cpu
