// Scaled dot product attention: scores as a matmul, a softmax over the keys, and a matmul with the values.
//
// Query heads that share a key head are a dimension of their own, along which keys and values have stride 0.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/contract.h"
#include "ops/view.h"

namespace npusim {
namespace {

struct Attention {
  int query, key, value;  // […, heads, L, E], […, heads, S, E], […, heads, S, Ev]
  int mask = -1;          // broadcasts to […, heads, L, S]
  bool causal = false;
  bool adds_truths = false;  // a mask of booleans is added as 0 and 1: of the internal operator that has it as numbers
  double scale = 1;
  Shape lead = {};  // batch and heads; with groups: batch, key heads, query heads per key head
  bool grouped = false;
  DType compute = DType::f32;
};

int operand_of(const OpCall& call, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    if (call.op->schema.find(name) >= 0) return call.tensor(name);
  return -1;
}

[[noreturn]] void misfit(const OpCall& call) {
  fail(ErrorKind::bad_input, "{}: query {}, key {} and value {} do not fit", call.op->name(),
       to_string(call.type("query")), to_string(call.type("key")), to_string(call.type("value")));
}

// Batch and heads of the result: the broadcast leading dimensions, but for heads in groups.
Shape leading(const OpCall& call, bool grouped) {
  const Shape &q = call.type("query").shape, &k = call.type("key").shape, &v = call.type("value").shape;
  const size_t least = grouped ? 3 : 2;
  if (q.size() < least || k.size() < least || v.size() < least || q.back() != k.back() ||
      k[k.size() - 2] != v[v.size() - 2])
    misfit(call);
  auto lead = [&](const Shape& shape) {
    return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(least));
  };
  Shape shape = broadcast_shapes(broadcast_shapes(lead(q), lead(k)), lead(v));
  if (grouped) {
    const int64_t heads = q[q.size() - 3], key_heads = k[k.size() - 3];
    const bool fits = key_heads < 1 ? heads == 0 : heads % key_heads == 0;
    if (!fits || v[v.size() - 3] != key_heads) misfit(call);
    shape.push_back(heads);
  }
  return shape;
}

bool is_grouped(const OpCall& call) {
  const Shape &q = call.type("query").shape, &k = call.type("key").shape;
  if (q.size() < 3 || k.size() < 3) return false;
  if (call.op->schema.find("enable_gqa") >= 0) return call.boolean("enable_gqa");
  // It is what enable_gqa comes to on a CPU, which it is not told.
  const int64_t heads = q[q.size() - 3], key_heads = k[k.size() - 3];
  return call.op->name() == "aten._scaled_dot_product_flash_attention_for_cpu.default" && key_heads != 1 &&
         heads != key_heads;
}

Attention attention_of(const OpCall& call, Lowering& lowering) {
  Attention a{lowering.input(call.tensor("query")), lowering.input(call.tensor("key")),
              lowering.input(call.tensor("value"))};
  a.mask = operand_of(call, {"attn_mask", "attn_bias"});
  a.causal = call.boolean("is_causal");
  a.adds_truths = call.op->schema.find("dropout_mask") >= 0;
  const int64_t width = std::max<int64_t>(call.type("query").shape.back(), 1);  // without elements all scores are 0
  a.scale = call.is_none("scale") ? 1 / std::sqrt(static_cast<double>(width)) : call.number("scale");
  a.grouped = is_grouped(call);
  a.lead = leading(call, a.grouped);
  if (a.grouped) {
    const Shape& key = call.type("key").shape;
    const int64_t key_heads = key[key.size() - 3];
    a.lead.back() = key_heads < 1 ? 1 : a.lead.back() / key_heads;
    a.lead.insert(a.lead.end() - 1, key_heads);
  }
  a.compute = compute_dtype(
      promote_types(call.type("query").dtype, promote_types(call.type("key").dtype, call.type("value").dtype)));
  return a;
}

// Coordinates of an operand with leading dimensions like `lead` and the last two given. With groups its head is group ·
// heads per group + index in the group (`by_query`), or the group.
std::vector<Coord> at(const KernelBuilder& k, const Attention& a, const Shape& shape, bool by_query, Coord row,
                      Coord column) {
  const size_t lead = a.lead.size() - a.grouped;  // as the operand counts them
  std::vector<Coord> coords;
  for (size_t d = 0; d + 2 < shape.size(); ++d) {
    const size_t from = lead + 2 - shape.size() + d;
    if (shape[d] == 1)
      coords.emplace_back(int64_t{0});
    else if (!a.grouped || from + 1 < lead)
      coords.emplace_back(k.dim(static_cast<int>(from)));
    else if (by_query)
      coords.emplace_back(k.dim(static_cast<int>(from)) * a.lead.back() + k.dim(static_cast<int>(from) + 1));
    else
      coords.emplace_back(k.dim(static_cast<int>(from)));
  }
  if (shape.size() >= 2) coords.push_back(std::move(row));
  if (!shape.empty()) coords.push_back(std::move(column));
  return coords;
}

Coord broadcast(const Shape& shape, size_t from_end, const Affine& index) {
  return shape.size() < from_end || shape[shape.size() - from_end] == 1 ? Coord(int64_t{0}) : Coord(index);
}

// The sum over dimension `rank` of a·b: a contraction, or the row of a kernel in float64.
Ex product(OpKernel& k, bool contract, int64_t extent, int a, const std::vector<Coord>& a_at, int b,
           const std::vector<Coord>& b_at) {
  if (contract) return k.contract(ContractionKind::matmul, {extent}, a, a_at, b, b_at);
  return k.reduce(Reduction::sum, k.load(a, a_at) * k.load(b, b_at));
}

// Masks are added, as ATen adds them: what is not a number stays so behind −inf.
Ex masked(OpKernel& k, const Attention& a, Ex score, const Affine& row, const Affine& column) {
  const auto added = [&](Ex kept) {
    const Ex zero = k.number(0, score.type());
    return score + select(kept, zero, k.number(-std::numeric_limits<double>::infinity(), score.type()));
  };
  if (a.causal) score = added(k.value(column) <= k.value(row));
  if (a.mask < 0) return score;
  const int mask = k.read(a.mask);
  const Shape& shape = k.shape(mask);
  const Ex m = k.load(mask, at(k, a, shape, true, broadcast(shape, 2, row), broadcast(shape, 1, column)));
  if (m.type() != Scalar::boolean) return score + m;
  return a.adds_truths ? score + k.cast(m, score.type()) : added(m);
}

int lower_mask(Lowering& lowering, const Attention& a, int scores) {
  const TensorType type = lowering.type(scores);
  const int result = lowering.temporary(type);
  OpKernel k(lowering, type.shape);
  const int rank = static_cast<int>(type.shape.size());
  const Ex x = k.load_broadcast(k.read(scores));
  const Ex y = masked(k, a, x, k.dim(rank - 2), k.dim(rank - 1));
  k.store(k.write(result), y);
  k.done("masked_scores");
  return result;
}

// [lead…, L, S] of scaled and masked scores.
int lower_scores(Lowering& lowering, const Attention& a, int64_t queries, int64_t keys) {
  const int64_t inner = lowering.type(a.query).shape.back();
  const bool contract = a.compute == DType::f32 && inner > 0;
  Shape space = a.lead;
  space.insert(space.end(), {queries, keys});
  const int result = lowering.temporary({a.compute, space});
  const int rank = static_cast<int>(space.size());
  if (!contract) space.push_back(inner);
  OpKernel k(lowering, space, !contract);
  const int query = k.read(a.query), key = k.read(a.key);
  const Affine row = k.dim(rank - 2), column = k.dim(rank - 1), along = k.dim(rank);
  const Ex score = product(k, contract, inner, query, at(k, a, k.shape(query), true, row, along), key,
                           at(k, a, k.shape(key), false, column, along));
  const Ex scaled = a.scale == 1 ? score : score * a.scale;
  if (a.mask < 0) {
    k.store(k.write(result), masked(k, a, scaled, row, column));
    k.done("scores");
    return result;
  }
  k.store(k.write(result), scaled);
  k.done("scores");
  // A kernel of its own, so that what the mask is computed from may become a part of it.
  return lower_mask(lowering, a, result);
}

// Rows that are all −inf, as where everything is masked, give 0.
int lower_softmax(Lowering& lowering, int scores) {
  const TensorType type = lowering.type(scores);
  const int result = lowering.temporary(type);
  OpKernel k(lowering, type.shape, 1);
  const Ex x = k.load_broadcast(k.read(scores));
  const Ex top = k.reduce(Reduction::max, x);
  const Ex power = exp(x - top);
  const Ex weight = power / k.reduce(Reduction::sum, power);
  k.store(k.write(result), select(top == -std::numeric_limits<double>::infinity(), 0.0, weight));
  k.done("softmax");
  return result;
}

void lower_values(Lowering& lowering, const Attention& a, int weights, int result) {
  const Shape weight_shape = lowering.type(weights).shape;
  const int64_t keys = weight_shape.back(), queries = weight_shape[weight_shape.size() - 2];
  const bool contract = a.compute == DType::f32 && keys > 0;
  Shape space = a.lead;
  space.insert(space.end(), {queries, lowering.type(a.value).shape.back()});
  const int rank = static_cast<int>(space.size());
  if (!contract) space.push_back(keys);
  OpKernel k(lowering, space, !contract);
  const int weight = k.read(weights), value = k.read(a.value);
  const Affine row = k.dim(rank - 2), column = k.dim(rank - 1), along = k.dim(rank);
  std::vector<Coord> weight_at = coordinates(identity_coordinates(a.lead.size()));
  weight_at.insert(weight_at.end(), {Coord(row), Coord(along)});
  const Ex x = product(k, contract, keys, weight, weight_at, value, at(k, a, k.shape(value), false, along, column));
  const int out = k.write(result);
  k.store(out, at(k, a, k.shape(out), true, row, column), x);
  k.done("attention_values");
}

// log Σ exp(score), [lead…, L] of `result`, whose last dimension may be longer (filled with inf as ATen does).
void lower_logsumexp(Lowering& lowering, int scores, int result) {
  Shape space = lowering.type(scores).shape;
  const int64_t queries = space[space.size() - 2], stored = lowering.type(result).shape.back();
  if (stored == 0) return;
  const int rank = static_cast<int>(space.size());
  space[space.size() - 2] = stored;
  OpKernel k(lowering, space, 1);
  const int from = k.read(scores);
  std::vector<Coord> coords = coordinates(identity_coordinates(space.size()));
  const Ex inside = k.index(rank - 2) < queries;
  Ex x = k.load(from, coords);
  if (stored > queries) x = select(inside, x, 0.0);
  const double inf = std::numeric_limits<double>::infinity();
  const Ex top = k.reduce(Reduction::max, x);
  Ex sum = top + log(k.reduce(Reduction::sum, exp(x - top)));
  sum = select(top == -inf, top, sum);
  if (stored > queries) sum = select(inside, sum, inf);
  k.store(k.write(result), sum);
  k.done("logsumexp");
}

void lower_attention(const OpCall& call, Lowering& lowering) {
  const Attention a = attention_of(call, lowering);
  const Shape &query = call.type("query").shape, &key = call.type("key").shape;
  const int scores = lower_scores(lowering, a, query[query.size() - 2], key[key.size() - 2]);
  const bool math = call.op->schema.find("dropout_mask") >= 0;
  const int weights = lower_softmax(lowering, scores);
  lower_values(lowering, a, weights, lowering.output(0));
  if (math) {
    lower_flat(lowering, "attention_weights", weights, lowering.output(1));
  } else if (call.outputs.size() > 1) {
    if (!a.grouped) {
      lower_logsumexp(lowering, scores, lowering.output(1));
    } else {  // heads in groups lie as heads do
      TensorType rows{lowering.type(lowering.output(1)).dtype, a.lead};
      rows.shape.push_back(query[query.size() - 2]);
      const int grouped = lowering.temporary(rows);
      lower_logsumexp(lowering, scores, grouped);
      lower_flat(lowering, "logsumexp_of_heads", grouped, lowering.output(1));
    }
    for (size_t i = 2; i < call.outputs.size(); ++i) {  // random state nothing was drawn from
      OpKernel k(lowering, call.outputs[i].shape);
      k.store(k.write(lowering.output(static_cast<int>(i))), k.integer(0));
      k.done("zeros");
    }
  }
}

TensorType attention_type(const OpCall& call) {
  Shape shape = leading(call, is_grouped(call));
  const Shape &q = call.type("query").shape, &k = call.type("key").shape;
  const int mask = operand_of(call, {"attn_mask", "attn_bias"});
  Shape scores = shape;
  scores.insert(scores.end(), {q[q.size() - 2], k[k.size() - 2]});
  if (mask >= 0 && broadcast_shapes(scores, call.inputs[static_cast<size_t>(mask)]->shape) != scores)
    fail(ErrorKind::bad_input, "{}: mask {} does not broadcast to {}", call.op->name(),
         to_string(*call.inputs[static_cast<size_t>(mask)]), to_string(scores));
  shape.push_back(q[q.size() - 2]);
  shape.push_back(call.type("value").shape.back());
  return {call.type("query").dtype, shape};
}

// Results that follow the first.
enum class Extra { none, weights, logsumexp, efficient };

template <Extra extra>
std::vector<TensorType> infer_attention(const OpCall& call) {
  const TensorType type = attention_type(call);
  std::vector<TensorType> types{type};
  Shape rows(type.shape.begin(), type.shape.end() - 1);
  if (extra == Extra::weights) {
    rows.push_back(call.type("key").shape[call.type("key").shape.size() - 2]);
    types.push_back({type.dtype, rows});
  } else if (extra == Extra::logsumexp) {
    types.push_back({compute_dtype(type.dtype), rows});
  } else if (extra == Extra::efficient) {  // rows padded to the kernel's tile
    rows.back() = call.boolean("compute_log_sumexp") ? (rows.back() + 31) / 32 * 32 : 0;
    types.push_back({DType::f32, rows});
    types.insert(types.end(), 2, {DType::i64, {}});
  }
  return types;
}

std::string refuse_attention(const OpCall& call) {
  for (const char* operand : {"query", "key", "value"})
    if (const DType dtype = call.type(operand).dtype; !is_float(dtype))
      return fmt::format("no attention of {}: {}", dtype_name(dtype), operand);
  if (call.number("dropout_p") != 0) return "dropout_p drops random weights; only inference is compiled";
  if (call.op->schema.find("dropout_mask") >= 0 && call.tensor("dropout_mask") >= 0)
    return "dropout_mask is not supported";
  return "";
}

template <Extra extra>
constexpr OpRecord attention(std::string_view schema) {
  OpRecord record = contraction(schema, infer_attention<extra>, lower_attention);
  record.refuse = refuse_attention;
  record.memory = Memory::arbitrary;
  return record;
}

constexpr OpRecord records[] = {
    attention<Extra::none>(
        "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
        "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"),
    attention<Extra::weights>(
        "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, "
        "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, "
        "*, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)"),
    attention<Extra::logsumexp>(
        "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
        "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) "
        "-> (Tensor output, Tensor logsumexp)"),
    attention<Extra::efficient>(
        "_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, "
        "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, "
        "float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, "
        "Tensor philox_offset)"),
};

}  // namespace

std::span<const OpRecord> attention_ops() { return records; }

}  // namespace npusim
