// Running a convolution through oneDNN, whatever its image's type and layout.
#include "backends/cpu/product/onednn/conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/blocks/streamed.h"
#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/onednn/nan_guard.h"
#include "backends/cpu/product/onednn/onednn.h"
#include "backends/cpu/product/simd.h"
#include "base/error.h"
#include "base/threads.h"

namespace npusim::cpu::product::onednn {
namespace {

// Where the store goes and what is added on the way, in float32 or the type of the operands; empty, or why oneDNN
// cannot write the output itself, or not without losing NaN.
std::string fuse_epilogue(const Problem& p, ConvSpec& s, PrimitiveMemory& m) {
  if (!p.chain) return no_chain(p.kernel);
  const Kernel& k = p.kernel;
  const Access& to = k.stores[0].access;
  const auto extents = tensor_extents(s.batch, s.groups * s.out_channels, s.output);
  auto type_of = [&](const Access& a) { return k.args[static_cast<size_t>(a.arg)].dtype; };
  auto at = [&](const Access& a) {
    return static_cast<std::byte*>(p.args[static_cast<size_t>(a.arg)].data) +
           a.offset * static_cast<int64_t>(dtype_size(type_of(a)));
  };
  auto is_known = [&](const Access& a) { return type_of(a) == DType::f32 || type_of(a) == s.types.operands; };
  if (!is_known(to)) return fmt::format("a result of {}", dtype_name(type_of(to)));
  if (!output_strides(k, to, extents, s.dst_strides)) return "a result that is no image";
  if (s.dst_strides != dense_strides(extents, true) && s.dst_strides != dense_strides(extents, false))
    return "a result whose pixels are padded or out of order";
  std::vector<EpilogueOp> ops = *p.chain;
  for (const EpilogueOp& op : ops) {
    if (op.add < 0) continue;
    const Access& access = k.accesses[static_cast<size_t>(op.add)];
    std::vector<int64_t> strides;
    if (!is_known(access) || !access.guards.empty() || !access.terms.empty())
      return "a sum with a tensor of another type or an indexed one";
    if (!(has_one_pixel(s) && &op == ops.data()) && output_strides(k, access, extents, strides)) {
      if (strides != s.dst_strides)  // oneDNN adds where it writes, whatever the layout it is given
        return "a sum with a tensor of another layout";
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
    if (!channels || !only) return "a sum with a tensor that is neither an image nor one number per channel";
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
  if (may_lose_nan(ops) && !(p.context.sees_nan && repeatable(k))) return "a NaN could get lost unseen";
  s.ops = std::move(ops);
  s.types.dst = type_of(to);
  m.dst = at(to);
  return {};
}

// A copy of the image, stored with strides `from`, into dense channels last of type `to`, whose rows have room for
// `pad` pixels before them and `row` in all.
Kernel transposing_kernel(const Kernel& kernel, const std::vector<int64_t>& extents, const std::vector<int64_t>& from,
                          DType to, int64_t pad, int64_t row) {
  const Access& image = kernel.contraction->a;
  std::vector<size_t> order{0};  // [n, spatial…, channel]
  for (size_t d = 2; d < extents.size(); ++d) order.push_back(d);
  order.push_back(1);
  std::vector<int64_t> space, strides;
  for (size_t d : order) {
    space.push_back(extents[d]);
    strides.push_back(from[d]);
  }
  Kernel copy = dense_copy(kernel.args[static_cast<size_t>(image.arg)], image.offset, space, strides, to);
  std::vector<int64_t> room = space;
  room[room.size() - 2] = row;
  copy.args[1].elements = element_count(room);
  copy.stores[0].access.strides = row_major_strides(room);
  copy.stores[0].access.offset = pad * space.back();
  return copy;
}

// A convolution as oneDNN is asked for it, before anything is known about its epilogue.
struct Asked {
  ConvSpec spec;
  PrimitiveMemory memory;
  std::vector<float> wide;     // the weight as f32, where it is not taken as it lies
  std::optional<Kernel> copy;  // or what copies it so in every run
  DType image_type = DType::f32;
  int64_t elements = 1;             // what the windows span in memory; widened as a whole
  std::vector<int64_t> transposed;  // the image's strides, where the convolution gets a copy with channels last
  std::optional<ConvSpec> piece;    // of a long row, with channels last and without padding
  std::string declined;
};

// The weight as f32, dense over [group, out channel, in channel, window…].
std::vector<float> widened(const Problem& p) {
  const Contraction& c = *p.kernel.contraction;
  const auto arg = static_cast<size_t>(c.b.arg);
  std::vector<int64_t> all = p.kernel.space;
  all.insert(all.end(), c.reduce.begin(), c.reduce.end());
  std::vector<int> depth;
  for (size_t d = p.kernel.space.size(); d < all.size(); ++d) depth.push_back(static_cast<int>(d));
  const Operand weight = make_operand(c.b, p.kernel.args[arg].dtype, p.args[arg].data,
                                      {Axis{}, make_axis(all, {1, 2}), make_axis(all, depth)});
  std::vector<float> wide(static_cast<size_t>(weight.size(1) * weight.size(2)));
  pack(weight, {0, 0, weight.size(1), 0, weight.size(2)}, wide.data(), weight.size(2));
  return wide;
}

Asked ask(const Problem& p) {
  Asked asked;
  asked.declined = p.conv.declined;
  if (!asked.declined.empty()) return asked;
  const Kernel& kernel = p.kernel;
  const Contraction& c = *kernel.contraction;
  ConvSpec& spec = asked.spec = p.conv.spec;
  const auto type_of = [&](const Access& a) { return kernel.args[static_cast<size_t>(a.arg)].dtype; };
  const DType image_type = asked.image_type = type_of(c.a), weight_type = type_of(c.b);
  spec.types.operands = image_type == weight_type && p.context.multiplies(image_type) ? image_type : DType::f32;
  const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
  for (size_t d = 0; d < extents.size(); ++d)
    asked.elements += extents[d] > 1 ? (extents[d] - 1) * spec.image_strides[d] : 0;
  const auto backwards = [](const std::vector<int64_t>& strides) {
    return std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; });
  };
  if (c.a.offset + asked.elements > kernel.args[static_cast<size_t>(c.a.arg)].elements)
    asked.declined = "windows whose image reaches beyond its tensor";
  else if (backwards(spec.image_strides))
    asked.declined = "an image that runs backwards";
  if (!asked.declined.empty()) return asked;
  const auto at = [&](const Access& a) {
    return static_cast<const std::byte*>(p.args[static_cast<size_t>(a.arg)].data) +
           a.offset * static_cast<int64_t>(dtype_size(type_of(a)));
  };
  asked.memory.src = at(c.a), asked.memory.weight = at(c.b);
  asked.memory.packs_weight = !p.conv.constant;
  asked.memory.weight_type = weight_type;
  // A 16-bit weight is widened, and a flipped one (transposed convolution) reversed, dense in the order of its strides'
  // dimensions; once when it is constant.
  if (weight_type == spec.types.operands && !backwards(spec.weight_strides)) return asked;
  asked.memory.weight_type = DType::f32;
  std::vector<int64_t> dense{spec.groups, spec.out_channels, spec.in_channels};
  dense.insert(dense.end(), spec.kernel.begin(), spec.kernel.end());
  if (p.conv.constant)
    asked.wide = widened(p);
  else
    asked.copy =
        dense_copy(kernel.args[static_cast<size_t>(c.b.arg)], c.b.offset, dense, spec.weight_strides, DType::f32);
  spec.weight_strides = row_major_strides(dense);
  return asked;
}

// oneDNN has fast code for dense channels last and, with an image in another order than what it writes or the strided
// view a 1x1 window of stride 2 sees, only its reference.
void transpose_image(Asked& asked) {
  ConvSpec& spec = asked.spec;
  const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
  const std::vector<int64_t> dense = dense_strides(extents, true);
  bool same = true;
  for (size_t d = 0; d < extents.size(); ++d) same = same && (extents[d] == 1 || spec.image_strides[d] == dense[d]);
  if (same) return;
  asked.transposed = spec.image_strides;
  spec.image_strides = dense;
}

// A row in pieces, one after the other: what oneDNN makes for one, and the time to make it, grow with its pixels (1 to
// 4 KB and 4 us for each, 2.6). What a piece adds to would have to move with it.
void cut(Asked& asked) {
  constexpr int64_t most_pixels = 4096;
  const ConvSpec& s = asked.spec;
  const size_t last = s.output.size() - 1;
  for (size_t d = 0; d < last; ++d)
    if (s.input[d] != 1 || s.output[d] != 1 || s.kernel[d] != 1) return;
  const auto is_whole = [](const std::vector<int64_t>& add) { return !add.empty(); };
  if (s.output[last] <= most_pixels || s.dst_strides[1] != 1 ||
      std::any_of(s.add_strides.begin(), s.add_strides.end(), is_whole))
    return;
  ConvSpec piece = s;
  piece.batch = 1;
  piece.output[last] = ceil_div(s.output[last], ceil_div(s.output[last], most_pixels));
  piece.input[last] = (piece.output[last] - 1) * s.stride[last] + (s.kernel[last] - 1) * s.dilation[last] + 1;
  piece.pad_low[last] = piece.pad_high[last] = 0;
  piece.image_strides = dense_strides(tensor_extents(1, s.groups * s.in_channels, piece.input), true);
  piece.dst_strides = dense_strides(tensor_extents(1, s.groups * s.out_channels, piece.output), true);
  if ((s.pad_low[last] > 0 || s.pad_high[last] > 0) && asked.transposed.empty()) asked.transposed = s.image_strides;
  asked.piece = std::move(piece);
}

// Pixels of a row as windows see it, with what pads it.
int64_t padded_row(const ConvSpec& s) {
  const int64_t windows = (s.output.back() - 1) * s.stride.back() + (s.kernel.back() - 1) * s.dilation.back() + 1;
  return std::max(s.pad_low.back() + s.input.back(), windows);
}

class ConvStep final : public BoundStep {
 public:
  ConvStep(const Problem& p, const Asked& asked, std::unique_ptr<BoundPrimitive> conv, bool fused)
      : cache_(p.context.primitives), conv_(std::move(conv)), threads_(usable_threads(p.kernel, p.context)) {
    const ConvSpec& spec = asked.spec;
    const Access &image = p.kernel.contraction->a, &weight = p.kernel.contraction->b;
    dtype_ = asked.image_type;
    image_ = static_cast<const std::byte*>(asked.memory.src);
    const DType src = spec.types.operands;
    elements_ = dtype_ == src && asked.transposed.empty() ? 0 : asked.elements;
    if (!asked.transposed.empty()) {
      const auto extents = tensor_extents(spec.batch, spec.groups * spec.in_channels, spec.input);
      const int64_t pad = asked.piece ? spec.pad_low.back() : 0;
      row_ = asked.piece ? padded_row(spec) : spec.input.back();
      const Kernel transpose = transposing_kernel(p.kernel, extents, asked.transposed, src, pad, row_);
      elements_ = transpose.args[1].elements;
      pads_ = row_ > spec.input.back();
      transpose_ = std::make_unique<loops::Loops>(transpose, threads_);
      transpose_args_ = {p.args[static_cast<size_t>(image.arg)].data, nullptr};
    }
    const auto lines = [](int64_t elements, DType type) {
      return (static_cast<size_t>(elements) * dtype_size(type) + 63) / 64 * 64;
    };
    src_bytes_ = lines(elements_, src);
    if (asked.copy) {
      copy_ = std::make_unique<loops::Loops>(*asked.copy, threads_);
      copy_args_ = {p.args[static_cast<size_t>(weight.arg)].data, nullptr};
      weight_bytes_ = lines(asked.copy->args[1].elements, DType::f32);
    }
    if (!fused) {
      const auto extents = tensor_extents(spec.batch, spec.groups * spec.out_channels, spec.output);
      dst_bytes_ = lines(element_count(extents), DType::f32);
      std::vector<int64_t> strides{spec.dst_strides[0], spec.out_channels * spec.dst_strides[1], spec.dst_strides[1]};
      strides.insert(strides.end(), spec.dst_strides.begin() + 2, spec.dst_strides.end());
      epilogue_ = make_epilogue(p.kernel, strides);
      epilogue_args_ = epilogue_args(epilogue_, p.args);
      loops_ = std::make_unique<loops::Loops>(epilogue_.kernel, threads_);
    }
    scratch_bytes_ = src_bytes_ + weight_bytes_ + dst_bytes_ + conv_->scratch_bytes;
    if (asked.piece) cut_rows(asked);
  }

  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    std::byte *weight = scratch_ + src_bytes_, *dst = weight + weight_bytes_;
    if (loops_) epilogue_args_[static_cast<size_t>(epilogue_.leaf)] = dst;
    if (transpose_) transpose_args_[1] = scratch_;
    if (copy_) copy_args_[1] = weight;
    bound_ = {.workspace = dst + dst_bytes_,
              .src = elements_ ? scratch_ : nullptr,
              .weight = copy_ ? weight : nullptr,
              .dst = loops_ ? dst : nullptr};
    conv_->rebind(bound_);
  }

  void run() override {
    if (copy_) copy_->run(copy_args_.data());
    if (transpose_) {
      if (pads_) std::memset(scratch_, 0, src_bytes_);
      transpose_->run(transpose_args_.data());
    } else if (elements_) {
      on_threads(threads_, [this](int thread) {
        const int64_t begin = elements_ * thread / threads_, end = elements_ * (thread + 1) / threads_;
        widen(dtype_, image_ + begin * static_cast<int64_t>(dtype_size(dtype_)), end - begin,
              reinterpret_cast<float*>(scratch_) + begin);
      });
    }
    if (pieces_.empty()) conv_->run();
    for (const Piece& piece : pieces_) {
      BoundPrimitive::Scratch at = bound_;
      at.src = (elements_ ? scratch_ : const_cast<std::byte*>(image_)) + piece.src;
      at.dst = (loops_ ? static_cast<std::byte*>(bound_.dst) : result_) + piece.dst;
      conv_->rebind(at);
      conv_->run();
    }
    if (loops_ && !loops_->run(epilogue_args_.data()))
      fail(ErrorKind::bad_input, "{}: {}", epilogue_.kernel.name, loops_->trap_message());
  }

  std::string describe() const override {
    return fmt::format("conv {}{}{}{}", conv_->implementation(),
                       transpose_  ? " transposed"
                       : elements_ ? " widened"
                                   : "",
                       pieces_.empty() ? "" : fmt::format(", {} pieces", pieces_.size()), loops_ ? " + epilogue" : "");
  }

 private:
  // In bytes of the image and of the result.
  struct Piece {
    int64_t src, dst;
  };
  // The last piece ends where its row does: some of it may be done again.
  void cut_rows(const Asked& asked) {
    const ConvSpec& s = asked.spec;
    result_ = static_cast<std::byte*>(asked.memory.dst);
    const auto src = static_cast<int64_t>(dtype_size(s.types.operands)),
               dst = static_cast<int64_t>(dtype_size(loops_ ? DType::f32 : s.types.dst));
    const int64_t pixels = asked.piece->output.back(), step = s.groups * s.in_channels * s.stride.back();
    const int64_t image = transpose_ ? row_ * s.groups * s.in_channels : s.image_strides[0];
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t x = 0; x < s.output.back(); x += pixels) {
        const int64_t first = std::min(x, s.output.back() - pixels);
        pieces_.push_back(
            {(n * image + first * step) * src, (n * s.dst_strides[0] + first * s.groups * s.out_channels) * dst});
      }
  }

  std::shared_ptr<PrimitiveCache> cache_;
  std::unique_ptr<BoundPrimitive> conv_;
  int threads_;
  DType dtype_;
  const std::byte* image_;
  int64_t elements_;   // of the image to widen
  int64_t row_ = 0;    // pixels of a row of the copy
  bool pads_ = false;  // there is room around them
  std::byte* result_ = nullptr;
  std::vector<Piece> pieces_;  // none: all at once
  BoundPrimitive::Scratch bound_;
  size_t src_bytes_ = 0, weight_bytes_ = 0, dst_bytes_ = 0;
  EpilogueKernel epilogue_;
  std::vector<void*> epilogue_args_;
  std::unique_ptr<loops::Loops> loops_;
  std::unique_ptr<loops::Loops> transpose_, copy_;  // of the image, of the weight
  std::vector<void*> transpose_args_, copy_args_;
};

MadePrimitive make_primitive(const Problem& p, const Asked& asked) {
  return make_convolution(*p.context.primitives, asked.piece ? *asked.piece : asked.spec, asked.memory,
                          asked.wide.empty() ? nullptr : asked.wide.data());
}

// Sums with channels last.
void ask_for_sums(Asked& asked) {
  transpose_image(asked);
  ConvSpec& spec = asked.spec;
  spec.types = {.operands = spec.types.operands, .adds = {}};
  spec.dst_strides = dense_strides(tensor_extents(spec.batch, spec.groups * spec.out_channels, spec.output), true);
}

Answer make_step(Problem& p, const Asked& asked, MadePrimitive conv, bool fused) {
  if (!conv.primitive) return decline(std::move(conv.declined));
  const ConvSpec& spec = asked.spec;
  // Arithmetic for bf16 takes channels in pairs, AMX 32 of them: what lies behind the last one is multiplied by 0.
  const int64_t together = conv.primitive->implementation().find("amx") == std::string::npos ? 2 : 32;
  std::unique_ptr<BoundStep> step = std::make_unique<ConvStep>(p, asked, std::move(conv.primitive), fused);
  if (spec.types.operands == DType::bf16 && spec.in_channels % together != 0)
    step = guard_finite(std::move(step), blocks::make_streamed_step(p), asked.image_type, asked.memory.src,
                        asked.elements, p.context);
  if (may_lose_nan(spec.ops)) step = guard_nan(std::move(step), blocks::make_streamed_step(p));
  return accept(std::move(step));
}

}  // namespace

Answer make_onednn_conv_step(Problem& p) {
  Asked asked = ask(p);
  if (!asked.declined.empty()) return decline(std::move(asked.declined));
  Asked sums = asked;
  if (std::string why = fuse_epilogue(p, asked.spec, asked.memory); !why.empty()) return decline(std::move(why));
  const bool channels_last = asked.spec.dst_strides[1] == 1;
  if (channels_last) transpose_image(asked), cut(asked);
  MadePrimitive conv = make_primitive(p, asked);
  const std::vector<int64_t>& kernel = asked.spec.kernel;
  if (!channels_last && conv.primitive && conv.primitive->by_products() &&
      std::any_of(kernel.begin(), kernel.end(), [](int64_t taps) { return taps > 1; })) {
    ask_for_sums(sums), cut(sums);
    const MadePrimitive other = make_primitive(p, sums);
    if (other.primitive && !other.primitive->by_products())
      return decline("channels first, where oneDNN copies all windows: turning image and result costs less");
  }
  return make_step(p, asked, std::move(conv), true);
}

Answer make_onednn_sums_step(Problem& p) {
  Asked asked = ask(p);
  if (!asked.declined.empty()) return decline(std::move(asked.declined));
  ask_for_sums(asked);
  cut(asked);
  MadePrimitive conv = make_primitive(p, asked);
  return make_step(p, asked, std::move(conv), false);
}

}  // namespace npusim::cpu::product::onednn
