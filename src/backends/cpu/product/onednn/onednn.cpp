// oneDNN primitives, created once per shape.
#include "backends/cpu/product/onednn/onednn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "backends/cpu/memory.h"
#include "backends/cpu/product/onednn/nan_guard.h"
#include "base/error.h"
#include "base/instruction_set.h"

namespace npusim::cpu::product::onednn {

namespace {
struct Primitive {
  dnnl::primitive primitive;
  dnnl::memory::desc src, weight, bias, dst, workspace;
  std::vector<dnnl::memory::desc> adds;  // of the post-ops that add
  std::vector<int> add_positions;        // theirs among the post-ops
  std::string implementation;
  std::string declined;  // why it is not used; then there is no more than this
};
}  // namespace

struct PrimitiveCache {
  std::mutex mutex;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<std::string, std::shared_ptr<const Primitive>> primitives;
  struct Weight {
    std::shared_ptr<std::byte> data;
    dnnl::memory memory;
  };
  std::map<std::string, Weight> weights;
};

namespace {

// Tells oneDNN, which heeds it before its first primitive only, what instruction_set() says.
void limit_library() {
  static const bool limited = [] {
    using dnnl::cpu_isa;
    constexpr cpu_isa sets[] = {cpu_isa::sse41, cpu_isa::sse41, cpu_isa::avx2, cpu_isa::avx512_core,
                                cpu_isa::avx512_core_bf16};
    const InstructionSet set = instruction_set();
    return !instruction_set_is_limited() ||
           dnnl::set_max_cpu_isa(sets[static_cast<size_t>(set)]) == dnnl::status::success;
  }();
  if (!limited) fail(ErrorKind::internal, "oneDNN was used before its instruction set was limited");
}

using dnnl::memory;
using Dims = memory::dims;

memory::data_type data_type(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::algorithm algorithm_of(Activation activation) {
  switch (activation) {
    case Activation::linear:
      return dnnl::algorithm::eltwise_linear;
    case Activation::clip:
      return dnnl::algorithm::eltwise_clip;
    case Activation::leaky_relu:
      return dnnl::algorithm::eltwise_relu;
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

// The post-ops of a primitive in the making. Its code has one set of constants per algorithm (2.6): a second operation
// of one would get the first one's, so it is refused by an exception, as oneDNN refuses.
struct PostOps {
  dnnl::post_ops ops;
  std::set<dnnl::algorithm> used;

  void apply(dnnl::algorithm algorithm, float alpha, float beta) {
    if (!used.insert(algorithm).second) throw dnnl::error(dnnl_unimplemented, "two operations of one algorithm");
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(algorithm, alpha, beta);
#else
    ops.append_eltwise(1.0f, algorithm, alpha, beta);
#endif
  }
  void apply(const EpilogueOp& op) {
    if (op.activation != Activation::hardswish)
      return apply(algorithm_of(op.activation), op.activation == Activation::swish ? 1 : op.alpha, op.beta);
    apply(dnnl::algorithm::eltwise_hardswish, 1.0f / 6, 0.5f);  // v3 made its constants parameters
    // It divides by 6 first. What overflows when it is multiplied first overflows here: y·6, then y^1 / 6.
    apply(dnnl::algorithm::eltwise_linear, 6, -0.0f);
    apply(dnnl::algorithm::eltwise_pow, 1.0f / 6, 1);
  }
};

Dims tensor_dims(int64_t n, int64_t channels, const std::vector<int64_t>& spatial) {
  Dims dims{n, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

template <typename Desc>
void describe(Primitive& made, const Desc& desc, bool bias) {
  made.src = desc.src_desc(), made.weight = desc.weights_desc(), made.dst = desc.dst_desc();
  if (bias) made.bias = desc.bias_desc();
  made.workspace = desc.scratchpad_desc();
  made.implementation = desc.impl_info_str();
}

// Post-ops; the nth that adds reads a tensor as adds[n] describes it and becomes number add_positions[n].
dnnl::primitive_attr attributes(const std::vector<EpilogueOp>& ops, Primitive& made) {
  PostOps post;
  for (const EpilogueOp& op : ops) {
    if (op.add < 0) {
      post.apply(op);
      continue;
    }
    const size_t n = made.add_positions.size();
    made.add_positions.push_back(post.ops.len());
    post.ops.append_binary(dnnl::algorithm::binary_add, made.adds[n]);
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(post.ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// Code without AVX-512's masks computes on whatever its registers hold beyond the last channel: that raises flags which
// say nothing about the results (nan_guard.h).
bool flags_at_random(const Primitive& made, const std::vector<EpilogueOp>& ops, int64_t channels) {
  return may_lose_nan(ops) && channels % 8 != 0 && made.implementation.find("avx512") == std::string::npos;
}

std::shared_ptr<const Primitive> declined(std::string why) {
  Primitive none;
  none.declined = std::move(why);
  return std::make_shared<const Primitive>(std::move(none));
}

// oneDNN's loops over single elements, for layouts and types that it has no code for.
bool is_reference(const Primitive& made) { return made.implementation.find("ref") != std::string::npos; }
constexpr const char* only_reference = "oneDNN has its reference implementation only";
constexpr const char* unseen_nan = "a NaN could get lost unseen among what stands beyond the last channel";

// These throw dnnl::error for what oneDNN does not do.
std::shared_ptr<const Primitive> create(PrimitiveCache& cache, const ConvSpec& s) {
  const Dims src_dims = tensor_dims(s.batch, s.groups * s.in_channels, s.input);
  const Dims dst_dims = tensor_dims(s.batch, s.groups * s.out_channels, s.output);
  Dims weight_dims{s.out_channels, s.in_channels};
  if (s.groups > 1) weight_dims.insert(weight_dims.begin(), s.groups);
  weight_dims.insert(weight_dims.end(), s.kernel.begin(), s.kernel.end());
  const auto operands = data_type(s.types.operands);
  const memory::desc src(src_dims, operands, s.image_strides), dst(dst_dims, data_type(s.types.dst), s.dst_strides);
  const memory::desc weight(weight_dims, operands, memory::format_tag::any);
  const memory::desc bias({dst_dims[1]}, data_type(s.types.bias), memory::format_tag::a);
  Dims dilates = s.dilation;
  for (auto& d : dilates) d -= 1;

  auto made = std::make_shared<Primitive>();
  for (size_t n = 0; n < s.add_strides.size(); ++n) {
    Dims dims(dst_dims.size(), 1), dense(dst_dims.size(), 1);
    dims[1] = dense[0] = dst_dims[1];
    if (s.add_strides[n].empty())
      made->adds.emplace_back(dims, data_type(s.types.adds[n]), dense);
    else
      made->adds.emplace_back(dst_dims, data_type(s.types.adds[n]), s.add_strides[n]);
  }
  const dnnl::primitive_attr attr = attributes(s.ops, *made);
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
  using Conv = dnnl::convolution_forward;
#if DNNL_VERSION_MAJOR >= 3
  const auto desc = s.bias ? Conv::primitive_desc(cache.engine, kind, algorithm, src, weight, bias, dst, s.stride,
                                                  dilates, s.pad_low, s.pad_high, attr)
                           : Conv::primitive_desc(cache.engine, kind, algorithm, src, weight, dst, s.stride, dilates,
                                                  s.pad_low, s.pad_high, attr);
#else
  const auto wanted =
      s.bias ? Conv::desc(kind, algorithm, src, weight, bias, dst, s.stride, dilates, s.pad_low, s.pad_high)
             : Conv::desc(kind, algorithm, src, weight, dst, s.stride, dilates, s.pad_low, s.pad_high);
  const Conv::primitive_desc desc(wanted, attr, cache.engine);
#endif
  describe(*made, desc, s.bias);
  if (is_reference(*made)) return declined(only_reference);
  // Its convolutions by products add a whole tensor as if it lay channels first (2.6).
  const bool by_products = made->implementation.find("gemm") != std::string::npos;  // its epilogue is scalar
  const bool adds_whole =
      std::any_of(s.add_strides.begin(), s.add_strides.end(), [](auto& add) { return !add.empty(); });
  if (adds_whole && s.dst_strides[1] == 1 && by_products)
    return declined("oneDNN's convolution by products adds tensors at wrong positions");
  // Its depthwise ones give all channels what they add to the first ones, if a tensor to add has the extents of the one
  // pixel of the output (2.6).
  if (has_one_pixel(s) && !s.add_strides.empty() && made->implementation.find("brdgmm") != std::string::npos)
    return declined("oneDNN's depthwise convolution of one pixel adds at wrong positions");
  if (!by_products && flags_at_random(*made, s.ops, s.out_channels == 1 ? s.groups : s.out_channels))
    return declined(unseen_nan);
  made->primitive = Conv(desc);
  return made;
}

std::shared_ptr<const Primitive> create(PrimitiveCache& cache, const ProductSpec& s) {
  const auto operands = data_type(s.types.operands);
  const memory::desc src({s.rows, s.depth}, operands, {s.src_stride, 1});
  const memory::desc dst({s.rows, s.columns}, data_type(s.types.dst), {s.dst_stride, 1});
  const memory::desc weight({s.depth, s.columns}, operands, memory::format_tag::any);
  const memory::desc bias({1, s.columns}, data_type(s.types.bias), {s.columns, 1});
  auto made = std::make_shared<Primitive>();
  for (size_t n = 0; n < s.add_strides.size(); ++n) {
    const int64_t stride = s.add_strides[n];
    const Dims dims{stride == 0 ? 1 : s.rows, s.columns}, strides{stride == 0 ? s.columns : stride, 1};
    made->adds.emplace_back(dims, data_type(s.types.adds[n]), strides);
  }
  const dnnl::primitive_attr attr = attributes(s.ops, *made);
#if DNNL_VERSION_MAJOR >= 3
  const auto desc = s.bias ? dnnl::matmul::primitive_desc(cache.engine, src, weight, bias, dst, attr)
                           : dnnl::matmul::primitive_desc(cache.engine, src, weight, dst, attr);
#else
  const auto wanted = s.bias ? dnnl::matmul::desc(src, weight, bias, dst) : dnnl::matmul::desc(src, weight, dst);
  const dnnl::matmul::primitive_desc desc(wanted, attr, cache.engine);
#endif
  describe(*made, desc, s.bias);
  if (is_reference(*made)) return declined(only_reference);
  if (flags_at_random(*made, s.ops, s.columns)) return declined(unseen_nan);
  made->primitive = dnnl::matmul(desc);
  return made;
}

template <typename Stride>
std::string key_of_ops(const std::vector<EpilogueOp>& ops, const std::vector<Stride>& add_strides) {
  std::string key;
  size_t add = 0;
  for (const EpilogueOp& op : ops) {
    if (op.add >= 0)
      key += fmt::format(" + {}", add_strides[add++]);
    else
      key += fmt::format(" {} {} {}", static_cast<int>(op.activation), op.alpha, op.beta);
  }
  return key;
}

std::string key_of(const ElementTypes& t) {
  std::string key = fmt::format("{} {} {}", dtype_name(t.operands), dtype_name(t.dst), dtype_name(t.bias));
  for (DType add : t.adds) key += fmt::format(" {}", dtype_name(add));
  return key;
}

std::string key_of(const ConvSpec& s) {
  return fmt::format("conv {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", key_of(s.types), s.batch, s.groups,
                     s.out_channels, s.in_channels, s.input, s.output, s.kernel, s.stride, s.dilation, s.pad_low,
                     s.pad_high, s.image_strides, s.dst_strides, s.bias) +
         key_of_ops(s.ops, s.add_strides);
}

std::string key_of(const ProductSpec& s) {
  return fmt::format("product {} {} {} {} {} {} {}", key_of(s.types), s.rows, s.columns, s.depth, s.src_stride,
                     s.dst_stride, s.bias) +
         key_of_ops(s.ops, s.add_strides);
}

// Extents and strides of the weight as it lies in memory, in the order of the primitive's.
memory::desc plain_weight(const ConvSpec& s, DType type) {
  Dims dims{s.groups, s.out_channels, s.in_channels}, strides = s.weight_strides;
  dims.insert(dims.end(), s.kernel.begin(), s.kernel.end());
  if (s.groups == 1) dims.erase(dims.begin()), strides.erase(strides.begin());
  return {dims, data_type(type), strides};
}
memory::desc plain_weight(const ProductSpec& s, DType type) {
  return {{s.depth, s.columns}, data_type(type), {s.weight_stride, s.weight_column_stride}};
}

const std::vector<int64_t>& weight_strides(const ConvSpec& s) { return s.weight_strides; }
std::vector<int64_t> weight_strides(const ProductSpec& s) { return {s.weight_stride, s.weight_column_stride}; }

// oneDNN writes the code that it makes where it got no memory for it (2.6): that fails before.
void need_room_for_code() {
  constexpr size_t bytes = size_t{8} << 20;  // a primitive may have a dozen kernels of 256 KiB
  void* room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  munmap(room, bytes);
}

// Called with the cache locked.
memory reordered_weight(PrimitiveCache& cache, const std::string& key, const memory::desc& from,
                        const memory::desc& wanted, const void* data) {
  if (const auto it = cache.weights.find(key); it != cache.weights.end()) return it->second.memory;
  need_room_for_code();
  auto bytes = aligned_bytes(wanted.get_size(), true);  // what pads it must be numbers: see nan_guard.h
  memory plain(from, cache.engine, const_cast<void*>(data)), packed(wanted, cache.engine, bytes.get());
  dnnl::reorder(plain, packed).execute(cache.stream, plain, packed);
  cache.stream.wait();
  cache.weights.emplace(key, PrimitiveCache::Weight{std::move(bytes), packed});
  return packed;
}

size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Packs a weight into scratch.
struct Packing {
  memory plain, packed;
  dnnl::reorder::primitive_desc desc;
  dnnl::reorder reorder;
  memory workspace;
  std::array<dnnl_exec_arg_t, 3> args;

  Packing(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to, const void* weight)
      : plain(from, engine, const_cast<void*>(weight)),
        packed(to, engine, nullptr),
        desc(engine, from, engine, to, own_workspace()),
        reorder((need_room_for_code(), desc)),
        workspace(desc.scratchpad_desc(), engine, nullptr),
        args{{{DNNL_ARG_FROM, plain.get()}, {DNNL_ARG_TO, packed.get()}, {DNNL_ARG_SCRATCHPAD, workspace.get()}}} {}
  static dnnl::primitive_attr own_workspace() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }
  size_t packed_bytes() const { return whole_lines(packed.get_desc().get_size()); }
  size_t bytes() const { return packed_bytes() + whole_lines(workspace.get_desc().get_size()); }
  void rebind(std::byte* scratch) {
    packed.set_data_handle(scratch);
    workspace.set_data_handle(scratch + packed_bytes());
  }
  dnnl_status_t run(dnnl_stream_t stream) {
    std::memset(packed.get_data_handle(), 0, packed_bytes());  // what pads it must be numbers: see nan_guard.h
    return dnnl_primitive_execute(reorder.get(), stream, static_cast<int>(args.size()), args.data());
  }
};

class Bound final : public BoundPrimitive {
 public:
  // `weight` as the primitive wants it, or null and `plain` as it lies in memory.
  Bound(PrimitiveCache& cache, std::shared_ptr<const Primitive> made, const PrimitiveMemory& m, memory weight,
        const memory::desc& plain)
      : cache_(cache),
        made_(std::move(made)),
        weight_(std::move(weight)),
        src_(made_->src, cache.engine, const_cast<void*>(m.src)),
        dst_(made_->dst, cache.engine, m.dst),
        workspace_(made_->workspace, cache.engine, nullptr) {
    if (m.packs_weight) packing_.emplace(cache.engine, plain, made_->weight, m.weight);
    scratch_bytes = whole_lines(made_->workspace.get_size()) + (packing_ ? packing_->bytes() : 0);
    auto add = [this](int arg, const memory& what) { args_.push_back({arg, what.get()}); };
    add(DNNL_ARG_SRC, src_);
    add(DNNL_ARG_WEIGHTS, packing_ ? packing_->packed : weight_);
    add(DNNL_ARG_DST, dst_);
    add(DNNL_ARG_SCRATCHPAD, workspace_);
    if (m.bias) {
      bias_ = memory(made_->bias, cache.engine, const_cast<void*>(m.bias));
      add(DNNL_ARG_BIAS, bias_);
    }
    for (size_t n = 0; n < made_->adds.size(); ++n) {
      adds_.emplace_back(made_->adds[n], cache.engine, const_cast<void*>(m.adds[n]));
      add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(made_->add_positions[n]) | DNNL_ARG_SRC_1, adds_.back());
    }
  }

  void run() override {
    if (packing_) check(packing_->run(cache_.stream.get()), "packing of a weight");
    check(dnnl_primitive_execute(made_->primitive.get(), cache_.stream.get(), static_cast<int>(args_.size()),
                                 args_.data()),
          made_->implementation);
  }
  std::string implementation() const override { return made_->implementation; }
  void rebind(const Scratch& scratch) override {
    auto* workspace = static_cast<std::byte*>(scratch.workspace);
    workspace_.set_data_handle(workspace);
    if (packing_) packing_->rebind(workspace + whole_lines(made_->workspace.get_size()));
    if (scratch.weight) packing_->plain.set_data_handle(scratch.weight);
    if (scratch.src) src_.set_data_handle(scratch.src);
    if (scratch.dst) dst_.set_data_handle(scratch.dst);
  }

 private:
  static void check(dnnl_status_t status, std::string_view what) {
    if (status != dnnl_success)
      fail(ErrorKind::device, "oneDNN {} failed with status {}", what, static_cast<int>(status));
  }

  PrimitiveCache& cache_;
  std::shared_ptr<const Primitive> made_;
  memory weight_, src_, dst_, workspace_, bias_;
  std::optional<Packing> packing_;
  std::vector<memory> adds_;
  std::vector<dnnl_exec_arg_t> args_;
};

// The primitive of this spec, made once, with this memory. `weight` has the elements of the weight.
template <typename Spec>
MadePrimitive bind(PrimitiveCache& cache, const Spec& spec, const PrimitiveMemory& m, const void* weight) {
  const std::lock_guard lock(cache.mutex);
  const std::string key = key_of(spec);
  try {
    auto it = cache.primitives.find(key);
    if (it == cache.primitives.end()) {
      need_room_for_code();
      it = cache.primitives.emplace(key, declined("oneDNN has no implementation")).first;  // stays so when it refuses
      it->second = create(cache, spec);
    }
    if (!it->second->declined.empty()) return {nullptr, it->second->declined};
    const memory::desc plain = plain_weight(spec, m.weight_type);
    memory packed;
    if (!m.packs_weight)
      packed = reordered_weight(cache, fmt::format("{} {} {}", m.weight, weight_strides(spec), key), plain,
                                it->second->weight, weight);
    return {std::make_unique<Bound>(cache, it->second, m, std::move(packed), plain), {}};
  } catch (const dnnl::error&) {
    return {nullptr, "oneDNN has no implementation"};
  }
}

}  // namespace

std::shared_ptr<PrimitiveCache> make_primitive_cache() {
  limit_library();
  return std::make_shared<PrimitiveCache>();
}

bool multiplies_bf16() {
  limit_library();
  constexpr auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);  // a set of bits
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

void apply_relu(PrimitiveCache& cache, float* values, int64_t count) {
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  constexpr auto relu = dnnl::algorithm::eltwise_relu;
  const memory::desc all({count}, memory::data_type::f32, memory::format_tag::a);
  need_room_for_code();
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::eltwise_forward::primitive_desc desc(cache.engine, kind, relu, all, all, 0.0f);
#else
  const dnnl::eltwise_forward::primitive_desc desc(dnnl::eltwise_forward::desc(kind, relu, all, 0.0f), cache.engine);
#endif
  memory tensor(all, cache.engine, values);
  dnnl::eltwise_forward(desc).execute(cache.stream, {{DNNL_ARG_SRC, tensor}, {DNNL_ARG_DST, tensor}});
  cache.stream.wait();
}

MadePrimitive make_convolution(PrimitiveCache& cache, const ConvSpec& spec, const PrimitiveMemory& memory,
                               const float* wide) {
  return bind(cache, spec, memory, wide ? wide : memory.weight);
}

MadePrimitive make_product(PrimitiveCache& cache, const ProductSpec& spec, const PrimitiveMemory& memory) {
  return bind(cache, spec, memory, memory.weight);
}

}  // namespace npusim::cpu::product::onednn
