// oneDNN primitives, created once per shape.
#include "backends/cpu/onednn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <string>

#include "base/error.h"

namespace npusim::cpu {

namespace {
struct ConvPrimitive {
  dnnl::convolution_forward::primitive_desc desc;
  dnnl::convolution_forward primitive;
  std::vector<dnnl::memory::desc> adds;
};
}  // namespace

struct PrimitiveCache {
  std::mutex mutex;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<std::string, std::shared_ptr<const ConvPrimitive>> convolutions;
  std::map<std::string, dnnl::memory> weights;
};

namespace {

using dnnl::memory;
using Dims = memory::dims;
constexpr auto f32 = memory::data_type::f32;

dnnl::algorithm algorithm_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return dnnl::algorithm::eltwise_relu;
    case Activation::clip:
      return dnnl::algorithm::eltwise_clip;
    case Activation::linear:
      return dnnl::algorithm::eltwise_linear;
    case Activation::logistic:
      return dnnl::algorithm::eltwise_logistic;
    case Activation::tanh:
      return dnnl::algorithm::eltwise_tanh;
    case Activation::swish:
      return dnnl::algorithm::eltwise_swish;
    case Activation::hardswish:
      return dnnl::algorithm::eltwise_hardswish;
    case Activation::gelu_erf:
      return dnnl::algorithm::eltwise_gelu_erf;
    case Activation::gelu_tanh:
      return dnnl::algorithm::eltwise_gelu_tanh;
  }
  return dnnl::algorithm::undef;
}

void append_activation(dnnl::post_ops& ops, const PostOp& op) {
#if DNNL_VERSION_MAJOR >= 3
  const bool hard = op.activation == Activation::hardswish;  // v3 made its constants parameters
  ops.append_eltwise(algorithm_of(op.activation), hard ? 1.0f / 6 : op.alpha, hard ? 0.5f : op.beta);
#else
  ops.append_eltwise(1.0f, algorithm_of(op.activation), op.alpha, op.beta);
#endif
}

Dims tensor_dims(int64_t n, int64_t channels, const std::vector<int64_t>& spatial) {
  Dims dims{n, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// Throws dnnl::error for what oneDNN does not do.
std::shared_ptr<const ConvPrimitive> create(PrimitiveCache& cache, const ConvSpec& s) {
  const Dims src_dims = tensor_dims(s.batch, s.groups * s.in_channels, s.input);
  const Dims dst_dims = tensor_dims(s.batch, s.groups * s.out_channels, s.output);
  Dims weight_dims{s.out_channels, s.in_channels};
  if (s.groups > 1) weight_dims.insert(weight_dims.begin(), s.groups);
  weight_dims.insert(weight_dims.end(), s.kernel.begin(), s.kernel.end());
  const memory::desc src(src_dims, f32, s.src_strides), dst(dst_dims, f32, s.dst_strides);
  const memory::desc weight(weight_dims, f32, memory::format_tag::any), bias({dst_dims[1]}, f32, memory::format_tag::a);
  Dims dilates = s.dilation;
  for (auto& d : dilates) d -= 1;

  auto made = std::make_shared<ConvPrimitive>();
  dnnl::post_ops ops;
  for (const PostOp& op : s.ops) {
    if (op.add < 0) {
      append_activation(ops, op);
      continue;
    }
    const Dims& strides = s.add_strides[made->adds.size()];
    Dims dims(dst_dims.size(), 1), dense(dst_dims.size(), 1);
    dims[1] = dense[0] = dst_dims[1];
    if (strides.empty())
      made->adds.emplace_back(dims, f32, dense);
    else
      made->adds.emplace_back(dst_dims, f32, strides);
    ops.append_binary(dnnl::algorithm::binary_add, made->adds.back());
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  made->desc = s.bias ? dnnl::convolution_forward::primitive_desc(cache.engine, kind, algorithm, src, weight, bias, dst,
                                                                  s.stride, dilates, s.pad_low, s.pad_high, attr)
                      : dnnl::convolution_forward::primitive_desc(cache.engine, kind, algorithm, src, weight, dst,
                                                                  s.stride, dilates, s.pad_low, s.pad_high, attr);
#else
  const auto desc = s.bias ? dnnl::convolution_forward::desc(kind, algorithm, src, weight, bias, dst, s.stride, dilates,
                                                             s.pad_low, s.pad_high)
                           : dnnl::convolution_forward::desc(kind, algorithm, src, weight, dst, s.stride, dilates,
                                                             s.pad_low, s.pad_high);
  made->desc = dnnl::convolution_forward::primitive_desc(desc, attr, cache.engine);
#endif
  made->primitive = dnnl::convolution_forward(made->desc);
  return made;
}

std::string key_of(const ConvSpec& s) {
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", s.batch, s.groups, s.out_channels,
                                s.in_channels, s.input, s.output, s.kernel, s.stride, s.dilation, s.pad_low, s.pad_high,
                                s.src_strides, s.dst_strides, s.bias);
  size_t add = 0;
  for (const PostOp& op : s.ops) {
    if (op.add >= 0)
      key += fmt::format(" + {}", s.add_strides[add++]);
    else
      key += fmt::format(" {} {} {}", static_cast<int>(op.activation), op.alpha, op.beta);
  }
  return key;
}

// Called with the cache locked.
memory reordered_weight(PrimitiveCache& cache, const ConvSpec& s, const ConvPrimitive& conv, const void* data,
                        const float* wide) {
  const memory::desc wanted = conv.desc.weights_desc();
  Dims dims{s.groups, s.out_channels, s.in_channels}, strides = s.weight_strides;
  dims.insert(dims.end(), s.kernel.begin(), s.kernel.end());
  if (s.groups == 1) dims.erase(dims.begin()), strides.erase(strides.begin());
  const std::string key = fmt::format("{} {} ", data, strides) + key_of(s);
  if (const auto it = cache.weights.find(key); it != cache.weights.end()) return it->second;
  const memory plain({dims, f32, strides}, cache.engine, wide ? const_cast<float*>(wide) : const_cast<void*>(data));
  memory packed(wanted, cache.engine);
  dnnl::reorder(plain, packed).execute(cache.stream, const_cast<memory&>(plain), packed);
  cache.stream.wait();
  return cache.weights.emplace(key, packed).first->second;
}

class BoundConvolution final : public Convolution {
 public:
  BoundConvolution(PrimitiveCache& cache, std::shared_ptr<const ConvPrimitive> conv, const ConvSpec& spec,
                   const ConvMemory& m, const float* wide)
      : cache_(cache),
        conv_(std::move(conv)),
        weight_(reordered_weight(cache, spec, *conv_, m.weight, wide)),
        src_(conv_->desc.src_desc(), cache.engine, const_cast<void*>(m.src)),
        dst_(conv_->desc.dst_desc(), cache.engine, m.dst),
        workspace_(conv_->desc.scratchpad_desc(), cache.engine, nullptr) {
    scratch_bytes = conv_->desc.scratchpad_desc().get_size();
    auto add = [this](int arg, const memory& what) { args_.push_back({arg, what.get()}); };
    add(DNNL_ARG_SRC, src_);
    add(DNNL_ARG_WEIGHTS, weight_);
    add(DNNL_ARG_DST, dst_);
    add(DNNL_ARG_SCRATCHPAD, workspace_);
    if (spec.bias) {
      bias_ = memory(conv_->desc.bias_desc(), cache.engine, const_cast<void*>(m.bias));
      add(DNNL_ARG_BIAS, bias_);
    }
    size_t n = 0;
    for (size_t i = 0; i < spec.ops.size(); ++i) {
      if (spec.ops[i].add < 0) continue;
      adds_.emplace_back(conv_->adds[n], cache.engine, const_cast<void*>(m.adds[n]));
      add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1, adds_.back());
      ++n;
    }
  }

  void run() override {
    const dnnl_status_t status = dnnl_primitive_execute(conv_->primitive.get(), cache_.stream.get(),
                                                        static_cast<int>(args_.size()), args_.data());
    if (status != dnnl_success)
      fail(ErrorKind::device, "oneDNN convolution failed with status {}", static_cast<int>(status));
  }
  const char* implementation() const override { return conv_->desc.impl_info_str(); }
  void rebind(void* workspace, void* src, void* dst) override {
    workspace_.set_data_handle(workspace);
    if (src) src_.set_data_handle(src);
    if (dst) dst_.set_data_handle(dst);
  }

 private:
  PrimitiveCache& cache_;
  std::shared_ptr<const ConvPrimitive> conv_;
  memory weight_, src_, dst_, workspace_, bias_;
  std::vector<memory> adds_;
  std::vector<dnnl_exec_arg_t> args_;
};

}  // namespace

std::shared_ptr<PrimitiveCache> make_primitive_cache() { return std::make_shared<PrimitiveCache>(); }

std::unique_ptr<Convolution> make_convolution(PrimitiveCache& cache, const ConvSpec& spec, const ConvMemory& memory,
                                              const float* wide) {
  const std::lock_guard lock(cache.mutex);
  const std::string key = key_of(spec);
  try {
    auto it = cache.convolutions.find(key);
    if (it == cache.convolutions.end()) {
      it = cache.convolutions.emplace(key, nullptr).first;  // stays so when oneDNN refuses
      it->second = create(cache, spec);
    }
    if (!it->second) return nullptr;
    return std::make_unique<BoundConvolution>(cache, it->second, spec, memory, wide);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace npusim::cpu
