// Which attentions a stream takes.
#include "backends/cuda/codegen/stream/facts/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/stream/facts/product.h"
#include "backends/cuda/codegen/text.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/key_count.h"
#include "kernel/facts/score_kernel.h"
#include "print/print.h"

namespace npusim::cuda::codegen::stream::facts {
namespace {

constexpr int64_t most_rows = 16, most_columns = 256;
constexpr int64_t most_seen = 1 << 14;                        // bytes
constexpr int64_t most_own_rows = 8, most_own_columns = 128;  // by warps: more has no room in registers

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// score = something of the dot + the mask, which hides a key where it is -inf.
int32_t find_mask(const Score& score) {
  std::vector<bool> of_dot;
  for (const Expr& e : score.exprs) {
    bool depends = e.op == ExprOp::contraction;
    for (int32_t in : e.in) depends = depends || (in >= 0 && of_dot[static_cast<size_t>(in)]);
    of_dot.push_back(depends);
  }
  const Expr& sum = score.exprs[static_cast<size_t>(score.result)];
  if (sum.op != ExprOp::add) return -1;
  const auto [a, b] = std::pair{sum.in[0], sum.in[1]};
  if (of_dot[static_cast<size_t>(a)] == of_dot[static_cast<size_t>(b)]) return -1;
  const int32_t mask = of_dot[static_cast<size_t>(a)] ? b : a;
  return score.exprs[static_cast<size_t>(mask)].type == Scalar::f32 ? mask : -1;
}

// Whether words of 16 bytes lie along the axis, wherever the other dimensions stand.
bool has_words(const Access& a, const Axis& along) {
  if (!a.guards.empty() || !a.terms.empty() || a.offset % word != 0) return false;
  int64_t unit = 1;
  std::vector<bool> inside(a.strides.size(), false);
  for (size_t n = along.dims.size(); n-- > 0; unit *= along.extents[n]) {
    const auto d = static_cast<size_t>(along.dims[n]);
    inside[d] = true;
    if (a.strides[d] != unit) return false;
  }
  for (size_t d = 0; d < a.strides.size(); ++d)
    if (!inside[d] && a.strides[d] % word != 0) return false;
  return along.size() % word == 0;
}

// Whether what a kernel of one store leaves depends on a dimension of the axis.
bool depends_on(const Kernel& k, const Axis& axis) {
  const DimSet varies = dependence_of(k).dims[static_cast<size_t>(k.stores[0].expr)];
  return std::any_of(axis.dims.begin(), axis.dims.end(),
                     [&](int dim) { return (varies & dim_bit(static_cast<size_t>(dim))) != 0; });
}

// Whether a chunk of keys and its values are rows evenly apart that fit into a piece.
bool fits_ring(const Kernel& k, const StreamAttention& a) {
  const AttentionAxes& axes = a.axes;
  if (axes.keys.dims.size() != 1 || axes.value_keys.dims.size() != 1) return false;
  if (axes.keys.size() % StreamAttention::chunk != 0 || axes.depth.size() % unit_depth != 0) return false;
  if (!batch_stride(a.keys(k), axes.batch) || !batch_stride(k.contraction->b, axes.batch)) return false;
  const RingLayout layout = ring_layout(k, a);
  constexpr int64_t most_apart = 1 << 24;  // bytes
  if (layout.key_apart < 0 || layout.value_apart < 0 || layout.key_apart > most_apart ||
      layout.value_apart > most_apart)
    return false;
  return a.ring_values() + StreamAttention::chunk * a.ring_pitch() <= slot_bytes &&
         axes.batch.size() * a.splits * a.chunks() <= most_seen;
}

}  // namespace

int64_t StreamAttention::shared_bytes() const {
  const int64_t rows = axes.rows.size(), depth = axes.depth.size();
  if (!multiplied) return common_bytes() + chunk * (depth * 2 + row_pad) + rows * depth * 4;
  int64_t bytes = most_rows * score_pitch * 4;
  bytes += ring ? axes.columns.size() * 2 : chunk * (axes.columns.size() * 2 + row_pad);
  if (by_warps) bytes = std::max(bytes, found_warps() * rows * (own_pitch() * 4 + 8));
  return (bytes + 15) / 16 * 16;
}

RingLayout ring_layout(const Kernel& k, const StreamAttention& a) {
  const auto apart = [](const Access& access, const Axis& keys) {
    return 2 * access.strides[static_cast<size_t>(keys.dims[0])];
  };
  return {2 * a.axes.depth.size(), apart(a.keys(k), a.axes.keys), 2 * a.axes.columns.size(),
          apart(k.contraction->b, a.axes.value_keys)};
}
int64_t piece_halves(const RingLayout& layout) {
  const int64_t half = StreamAttention::own_keys * (layout.key_bytes + layout.value_bytes);
  return half == 0 ? 1 : std::min<int64_t>(stream_warps, slot_bytes / half);
}
int64_t round_pieces(const RingLayout& layout) {
  const int64_t halves = piece_halves(layout);
  return (stream_warps + halves - 1) / halves;
}
std::optional<int64_t> batch_stride(const Access& access, const Axis& batch) {
  int64_t stride = 0, flat = 1;  // of the innermost dimension; positions within it
  for (size_t n = batch.dims.size(); n-- > 0; flat *= batch.extents[n]) {
    if (batch.extents[n] == 1) continue;
    const int64_t apart = access.strides[static_cast<size_t>(batch.dims[n])];
    if (flat == 1) stride = apart;
    if (apart < 0 || apart != stride * flat) return std::nullopt;
  }
  return stride;
}

Kernel masked_by(const Kernel& k, int32_t mask) {
  const Score& score = *k.contraction->score;
  Kernel kernel = score_kernel(k);
  Expr behind{.op = ExprOp::contraction, .type = Scalar::f32};
  behind.integer = 1;
  kernel.exprs[static_cast<size_t>(mask)] = behind;
  return storing(std::move(kernel), score.result, DType::f32);
}

Kernel stored_mask(const Kernel& k, int32_t mask) { return storing(score_kernel(k), mask, DType::f32); }

std::vector<int> score_arguments(const Kernel& k) {
  std::vector<int> args;
  for (const Access& a : k.contraction->score->accesses) args.push_back(a.arg);
  return args;
}

std::optional<StreamAttention> find_stream_attention(const Kernel& k, const plan::Contracted& contracted,
                                                     int64_t blocks, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const std::optional<AttentionAxes>& axes = contracted.axes;
  if (!axes) return none("an attention whose operands both depend on the keys");
  StreamAttention a{*axes};
  const int64_t rows = axes->rows.size(), depth = axes->depth.size(), columns = axes->columns.size();
  if (rows > most_rows) return none(fmt::format("an attention of {} rows, not up to {}", rows, most_rows));
  if (depth > most_columns || columns > most_columns)
    return none(fmt::format("an attention of {} and {} columns, not up to {}", depth, columns, most_columns));
  if (rows < 1 || axes->batch.size() < 1 || axes->keys.size() < 1) return none("an attention of nothing");
  const Access &keys = a.keys(k), &queries = a.queries(k), &values = k.contraction->b;
  const auto dtype = [&](const Access& of) { return k.args[static_cast<size_t>(of.arg)].dtype; };
  if (!is_half(dtype(keys)) || !is_half(dtype(values)) || (!is_half(dtype(queries)) && dtype(queries) != DType::f32))
    return none("an attention whose keys and values are not of 16 bits");
  if (!queries.guards.empty() || !queries.terms.empty()) return none("an attention with bounds");
  if (!has_words(keys, axes->depth) || !has_words(values, axes->columns))
    return none("keys or values that do not lie in words");
  if (std::any_of(k.stores.begin(), k.stores.end(), [](const Store& s) { return s.accumulate; }))
    return none("an attention that adds to what it stores");
  if (takes_log(k)) return none("an attention that stores the log of its weights' sum");
  constexpr int64_t most_elements = int64_t{1} << 30;  // positions are int
  for (const KernelArg& arg : k.args)
    if (arg.elements > most_elements) return none(fmt::format("an attention with {} elements", arg.elements));
  const bool counted = k.contraction->score->keys >= 0;
  const Kernel count = counted ? stored_count(k) : Kernel{};
  if (takes_trap(stored_score(k)) || (counted && takes_trap(count))) return none("scores that can trap");
  a.multiplied = dtype(queries) == dtype(keys) && depth % StreamAttention::unit == 0 &&
                 has_words(queries, axes->depth) && !(counted && depends_on(count, axes->rows));
  const int64_t batch = axes->batch.size();
  const int64_t chunks = (axes->keys.size() + StreamAttention::chunk - 1) / StreamAttention::chunk;
  a.splits = std::max<int64_t>(1, std::min(blocks / batch, chunks));
  if (a.splits > 32) a.splits -= a.splits % 32;  // lanes of a warp merge them
  const bool by_warps = a.multiplied && rows <= most_own_rows && depth <= most_own_columns &&
                        columns <= most_own_columns && columns % 64 == 0;
  a.counted = counted;
  a.by_warps = by_warps && a.chunks() > 2;
  a.can_use_ring = a.multiplied && (by_warps || a.chunks() == 1) && fits_ring(k, a);
  a.partial_bytes = batch * a.splits * rows * columns / quad_columns * 32;
  a.mask = find_mask(*k.contraction->score);
  if (a.mask >= 0 && a.chunks() > 1) a.inspected_chunks = a.chunks();
  if (a.seen_bytes() > most_seen) a.inspected_chunks = 0;
  return a;
}

}  // namespace npusim::cuda::codegen::stream::facts
