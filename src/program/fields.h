// What a program file holds of each struct, in order: one description for reading and for writing.
//
// A struct is a map from field names to values; the small ones of kernel IR, of which there are many, are arrays. The
// last field of a program is there only where it is not empty.
#pragma once
#include <concepts>
#include <type_traits>

#include "program/program.h"

namespace npusim {

// T or const T: an archive that writes visits const structs.
template <typename S, typename T>
concept Like = std::same_as<std::remove_const_t<S>, T>;

// Largest value of each enumeration that a file may hold.
template <typename E>
inline constexpr E last_of = E{};
template <>
inline constexpr DType last_of<DType> = static_cast<DType>(dtype_count - 1);
template <>
inline constexpr Scalar last_of<Scalar> = Scalar::f64;
template <>
inline constexpr ExprOp last_of<ExprOp> = static_cast<ExprOp>(expr_op_count - 1);
template <>
inline constexpr Reduction last_of<Reduction> = Reduction::max;
template <>
inline constexpr ContractionKind last_of<ContractionKind> = ContractionKind::attention;
template <>
inline constexpr CallKind last_of<CallKind> = CallKind::booleans;
template <>
inline constexpr ImageLayout last_of<ImageLayout> = ImageLayout::channels_last;
template <>
inline constexpr BufferKind last_of<BufferKind> = BufferKind::local;
template <>
inline constexpr Resource last_of<Resource> = static_cast<Resource>(resource_count - 1);
template <>
inline constexpr Role last_of<Role> = static_cast<Role>(role_count - 1);

template <typename T>
inline constexpr bool is_compact =
    std::same_as<T, Expr> || std::same_as<T, Guard> || std::same_as<T, IndexTerm> || std::same_as<T, Access> ||
    std::same_as<T, Store> || std::same_as<T, KernelArg> || std::same_as<T, CallArgument> ||
    std::same_as<T, CallTensor> || std::same_as<T, TensorType>;

template <typename Archive, Like<TensorType> S>
void fields(Archive& a, S& s) {
  a("dtype", s.dtype), a("shape", s.shape);
}

template <typename Archive, Like<HostTensor> S>
void fields(Archive& a, S& s) {
  a("type", s.type), a("data", s.data);
}

template <typename Archive, Like<Expr> S>
void fields(Archive& a, S& s) {
  a("op", s.op), a("type", s.type), a("dtype", s.dtype), a("reduction", s.reduction);
  a("in", s.in), a("number", s.number), a("integer", s.integer);
}

template <typename Archive, Like<Guard> S>
void fields(Archive& a, S& s) {
  a("coeffs", s.coeffs), a("offset", s.offset), a("limit", s.limit), a("stride", s.stride);
}

template <typename Archive, Like<IndexTerm> S>
void fields(Archive& a, S& s) {
  a("expr", s.expr), a("stride", s.stride), a("extent", s.extent);
}

template <typename Archive, Like<Access> S>
void fields(Archive& a, S& s) {
  a("arg", s.arg), a("offset", s.offset), a("strides", s.strides), a("guards", s.guards), a("terms", s.terms);
}

template <typename Archive, Like<Store> S>
void fields(Archive& a, S& s) {
  a("access", s.access), a("expr", s.expr), a("accumulate", s.accumulate), a("reduction", s.reduction);
}

template <typename Archive, Like<KernelArg> S>
void fields(Archive& a, S& s) {
  a("dtype", s.dtype), a("elements", s.elements), a("written", s.written), a("updates", s.updates);
}

template <typename Archive, Like<Score> S>
void fields(Archive& a, S& s) {
  a("space", s.space), a("accesses", s.accesses), a("exprs", s.exprs), a("result", s.result);
  a("reduce", s.reduce), a("a", s.a), a("b", s.b), a("keys", s.keys);
}

template <typename Archive, Like<Contraction> S>
void fields(Archive& a, S& s) {
  a("kind", s.kind), a("reduce", s.reduce), a("a", s.a), a("b", s.b), a("score", s.score);
  a("masked_rows_are_zero", s.masked_rows_are_zero);
}

template <typename Archive, Like<CallArgument> S>
void fields(Archive& a, S& s) {
  a("kind", s.kind), a("tensors", s.tensors), a("integers", s.integers), a("reals", s.reals), a("text", s.text);
}

template <typename Archive, Like<CallTensor> S>
void fields(Archive& a, S& s) {
  a("arg", s.arg), a("shape", s.shape);
}

template <typename Archive, Like<Call> S>
void fields(Archive& a, S& s) {
  a("op", s.op), a("arguments", s.arguments), a("operands", s.operands), a("results", s.results);
}

template <typename Archive, Like<Kernel> S>
void fields(Archive& a, S& s) {
  a("name", s.name), a("space", s.space), a("row_dims", s.row_dims), a("args", s.args), a("accesses", s.accesses);
  a("exprs", s.exprs), a("stores", s.stores), a("contraction", s.contraction), a("call", s.call);
}

template <typename Archive, Like<Machine> S>
void fields(Archive& a, S& s) {
  a("units", s.units), a("unit_bytes", s.unit_bytes), a("block_bytes", s.block_bytes), a("memory_gb_s", s.memory_gb_s);
  a("gflop_s", s.gflop_s), a("gflop_s_16_bit", s.gflop_s_16_bit), a("link_gb_s", s.link_gb_s), a("link_us", s.link_us);
}

template <typename Archive, Like<TargetConfig> S>
void fields(Archive& a, S& s) {
  a("name", s.name), a("equal_operands", s.equal_operands), a("channel_alignment_bytes", s.channel_alignment_bytes),
      a("channel_tile", s.channel_tile);
  a("pad_channels", s.pad_channels), a("buffer_alignment_bytes", s.buffer_alignment_bytes);
  a("max_rank", s.max_rank), a("image_layout", s.image_layout), a("machine", s.machine), a("own", s.own);
}

template <typename Archive, Like<Buffer> S>
void fields(Archive& a, S& s) {
  a("name", s.name), a("kind", s.kind), a("type", s.type), a("stored", s.stored), a("offset", s.offset);
  a("fqn", s.fqn), a("tied", s.tied), a("constant", s.constant), a("device", s.device);
  a("finite_for", s.finite_for), a("kept", s.kept);
}

template <typename Archive, Like<TensorSpec> S>
void fields(Archive& a, S& s) {
  a("name", s.name), a("type", s.type), a("buffer", s.buffer), a("role", s.role);
}

template <typename Archive, Like<Estimate> S>
void fields(Archive& a, S& s) {
  a("seconds", s.seconds), a("bound", s.bound);
}

template <typename Archive, Like<Step> S>
void fields(Archive& a, S& s) {
  a("kernel", s.kernel), a("buffers", s.buffers), a("device", s.device), a("origins", s.origins);
  a("estimate", s.estimate);
}

template <typename Archive, Like<Origin> S>
void fields(Archive& a, S& s) {
  a("node", s.node), a("op", s.op), a("reason", s.reason);
}

template <typename Archive, Like<Declined> S>
void fields(Archive& a, S& s) {
  a("implementation", s.implementation), a("reason", s.reason);
}

template <typename Archive, Like<Launch> S>
void fields(Archive& a, S& s) {
  a("first", s.first), a("count", s.count), a("code", s.code), a("symbol", s.symbol), a("grid", s.grid);
  a("block", s.block), a("shared_bytes", s.shared_bytes), a("own_bytes", s.own_bytes), a("together", s.together);
  a("how", s.how), a("declined", s.declined), a("args", s.args), a("traps", s.traps), a("early", s.early);
}

template <typename Archive, Like<Sequence> S>
void fields(Archive& a, S& s) {
  a("steps", s.steps), a("launches", s.launches);
}

template <typename Archive, Like<Arena> S>
void fields(Archive& a, S& s) {
  a("bytes", s.bytes), a("lower_bound_bytes", s.lower_bound_bytes), a("workspace_bytes", s.workspace_bytes);
}

template <typename Archive, Like<Method> S>
void fields(Archive& a, S& s) {
  a("name", s.name), a("inputs", s.inputs), a("outputs", s.outputs), a("steps", s.steps), a("launches", s.launches);
  a("arenas", s.arenas), a("nodes", s.nodes), a("declined", s.declined), a("fusions", s.fusions),
      a("materialized", s.materialized);
}

template <typename Archive, Like<Code> S>
void fields(Archive& a, S& s) {
  a("format", s.format), a("architecture", s.architecture), a("bytes", s.bytes);
}

template <typename Archive, Like<ProgramDevice> S>
void fields(Archive& a, S& s) {
  a("target", s.target), a("config", s.config);
}

template <typename Archive, Like<Choice> S>
void fields(Archive& a, S& s) {
  a("kernel", s.kernel), a("device", s.device), a("compiler", s.compiler), a("how", s.how), a("before", s.before);
  a("ms", s.ms), a("before_ms", s.before_ms);
}

template <typename Archive, Like<TextFacts> S>
void fields(Archive& a, S& s) {
  a("decode", s.decode), a("prefills", s.prefills), a("greedy", s.greedy), a("sample", s.sample);
  a("nucleus", s.nucleus), a("batch", s.batch), a("vocabulary", s.vocabulary), a("capacity", s.capacity);
  a("by_position", s.by_position), a("lacks", s.lacks);
}

template <typename Archive, Like<Variant> S>
void fields(Archive& a, S& s) {
  a("devices", s.devices), a("buffers", s.buffers), a("kernels", s.kernels), a("code", s.code);
  a("recipes", s.recipes), a("methods", s.methods), a("choices", s.choices);
}

template <typename Archive, Like<Program> S>
void fields(Archive& a, S& s) {
  a("model", s.model), a("dtype", s.dtype), a("strict", s.strict), a("devices", s.devices), a("buffers", s.buffers);
  a("constants", s.constants), a("kernels", s.kernels), a("code", s.code), a("origins", s.origins);
  a("recipes", s.recipes), a("methods", s.methods), a("text", s.text), a("choices", s.choices);
  if (a.has(s.variants)) a("variants", s.variants);
}

}  // namespace npusim
