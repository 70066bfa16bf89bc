// Kernels with a contraction: products and convolutions with an epilogue and attention with a score.
//
// Epilogues are epilogue(builder, leaf, bias, residual), where the bias is one
// number per column or channel and the residual one per result.
#pragma once
#include <vector>

#include "kernel/builder.h"
#include "kernel/facts/score_kernel.h"

namespace npusim {

using Coords = std::vector<Coord>;

struct ConvCase {
  int64_t batch = 1, groups = 1, in_channels = 4, out_channels = 6;  // per group
  std::vector<int64_t> input{9, 8}, kernel{3, 3}, stride{1, 1}, pad{1, 1}, dilation{1, 1};
  bool channels_last = true;
  bool result_turned = false;   // in the other order than the image
  bool taps_backwards = false;  // of the weight, as of a transposed convolution
  DType type = DType::f32, weight_type = DType::f32;
};

inline Shape layout(const ConvCase& c, int64_t channels, const std::vector<int64_t>& spatial) {
  Shape shape{c.batch};
  if (!c.channels_last) shape.push_back(channels);
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  if (c.channels_last) shape.push_back(channels);
  return shape;
}
inline Coords coords(const ConvCase& c, Affine n, Affine channel, const std::vector<Affine>& spatial) {
  Coords at{n};
  if (!c.channels_last) at.emplace_back(channel);
  for (const Affine& s : spatial) at.emplace_back(s);
  if (c.channels_last) at.emplace_back(channel);
  return at;
}

// Arguments: image 0, weight 1, bias 2, residual 3.
template <typename Epilogue>
Kernel conv(const ConvCase& c, Epilogue&& epilogue) {
  const size_t rank = c.input.size();
  std::vector<int64_t> out(rank);
  for (size_t i = 0; i < rank; ++i)
    out[i] = (c.input[i] + 2 * c.pad[i] - c.dilation[i] * (c.kernel[i] - 1) - 1) / c.stride[i] + 1;
  Shape space{c.batch, c.groups, c.out_channels}, reduce{c.in_channels},
      weight{c.groups * c.out_channels, c.in_channels};
  space.insert(space.end(), out.begin(), out.end());
  reduce.insert(reduce.end(), c.kernel.begin(), c.kernel.end());
  weight.insert(weight.end(), c.kernel.begin(), c.kernel.end());
  KernelBuilder b(space);
  const int channel_dim = static_cast<int>(space.size());
  const int image = b.input({c.type, layout(c, c.groups * c.in_channels, c.input)}),
            w = b.input({c.weight_type, weight});
  const int bias = b.input({DType::f32, {c.groups * c.out_channels}});
  ConvCase to = c;
  to.channels_last = c.channels_last != c.result_turned;
  const int residual = b.input({c.type, layout(to, c.groups * c.out_channels, out)});
  const int result = b.output({c.type, layout(to, c.groups * c.out_channels, out)});
  std::vector<Affine> window, pixel;
  Affine out_channel = b.dim(1) * c.out_channels + b.dim(2);
  Coords w_at{out_channel, b.dim(channel_dim)};
  for (size_t i = 0; i < rank; ++i) {
    const int o = 3 + static_cast<int>(i), k = channel_dim + 1 + static_cast<int>(i);
    window.push_back(b.dim(o) * c.stride[i] + b.dim(k) * c.dilation[i] + -c.pad[i]);
    pixel.push_back(b.dim(o));
    w_at.emplace_back(c.taps_backwards ? b.dim(k) * -1 + (c.kernel[i] - 1) : b.dim(k));
  }
  Ex leaf = b.contract(ContractionKind::conv, reduce, image,
                       coords(c, b.dim(0), b.dim(1) * c.in_channels + b.dim(channel_dim), window), w, w_at);
  const Coords at = coords(to, b.dim(0), out_channel, pixel);
  b.store(result, at, epilogue(b, leaf, b.load(bias, Coords{out_channel}), b.load(residual, at)));
  return b.finish("conv");
}
// out[m, n] = f(Σ_k x[m, k]·w[n, k]), the shape of a linear layer; the same arguments.
template <typename Epilogue>
Kernel linear(int64_t m, int64_t n, int64_t k, DType x_type, DType w_type, DType out_type, Epilogue&& epilogue) {
  KernelBuilder b({m, n});
  const int x = b.input({x_type, {m, k}}), w = b.input({w_type, {n, k}});
  const int bias = b.input({DType::f32, {n}}), residual = b.input({out_type, {m, n}});
  const int out = b.output({out_type, {m, n}});
  Ex leaf = b.contract(ContractionKind::matmul, {k}, x, Coords{b.dim(0), b.dim(2)}, w, Coords{b.dim(1), b.dim(2)});
  b.store(out, epilogue(b, leaf, b.load_broadcast(bias), b.load_broadcast(residual)));
  return b.finish("linear");
}
inline Ex plain(KernelBuilder&, Ex leaf, Ex, Ex) { return leaf; }

struct AttentionCase {
  int64_t batch = 1, kv_heads = 2, group = 1, queries = 5, keys = 40, depth = 16, columns = 16;
  DType type = DType::f32;
  bool safe = false;
  bool logs = false;
};

// Stores the log of an attention's sums too, behind its other arguments: dense over its space but for the values.
inline void store_logs(Kernel& kernel) {
  const Shape rows(kernel.space.begin(), kernel.space.end() - 1);
  Access to{static_cast<int>(kernel.args.size()), 0, row_major_strides(rows), {}, {}};
  to.strides.push_back(0);
  kernel.args.push_back({DType::f32, element_count(rows), true, -1});
  Expr log{.op = ExprOp::contraction, .type = Scalar::f32};
  log.integer = 1;
  kernel.exprs.push_back(log);
  kernel.stores.push_back({std::move(to), static_cast<int32_t>(kernel.exprs.size()) - 1, false});
}

// Space [batch, kv head, group, q, d]; q [batch, q, head, depth], k and v [batch, keys, kv head, depth].
// `score(builder, leaf, mask)` is the score's expression; the mask [batch, q, keys] is argument 3.
template <typename ScoreOf>
Kernel attention(const AttentionCase& c, DType mask_type, ScoreOf&& score_of) {
  const int64_t heads = c.kv_heads * c.group;
  const TensorType q_type{c.type, {c.batch, c.queries, c.kv_heads, c.group, c.depth}};
  const TensorType k_type{c.type, {c.batch, c.keys, c.kv_heads, c.depth}},
      v_type{c.type, {c.batch, c.keys, c.kv_heads, c.columns}};
  const TensorType m_type{mask_type, {c.batch, c.queries, c.keys}};
  KernelBuilder s({c.batch, c.kv_heads, c.group, c.queries, c.keys});
  const int q = s.input(q_type), k = s.input(k_type), v = s.input(v_type), m = s.input(m_type);
  const int scores = s.output({DType::f32, {c.batch, c.kv_heads, c.group, c.queries, c.keys}});
  Ex leaf = s.contract(ContractionKind::matmul, {c.depth}, q, Coords{s.dim(0), s.dim(3), s.dim(1), s.dim(2), s.dim(5)},
                       k, Coords{s.dim(0), s.dim(4), s.dim(1), s.dim(5)});
  s.store(scores, score_of(s, leaf, s.load(m, Coords{s.dim(0), s.dim(3), s.dim(4)})));
  Score score = to_score(s.finish("score"));

  KernelBuilder b({c.batch, c.kv_heads, c.group, c.queries, c.columns});
  b.input(q_type), b.input(k_type), b.input(v_type), b.input(m_type);
  const int out = b.output({c.type, {c.batch, c.queries, heads * c.columns}});
  Ex value = b.contract(ContractionKind::attention, {c.keys}, v, Coords{b.dim(0), b.dim(5), b.dim(1), b.dim(4)}, v,
                        Coords{b.dim(0), b.dim(5), b.dim(1), b.dim(4)});
  b.store(out, Coords{b.dim(0), b.dim(3), b.dim(1) * (c.group * c.columns) + b.dim(2) * c.columns + b.dim(4)}, value);
  Kernel kernel = b.finish("attention");
  auto contraction = std::make_shared<Contraction>(*kernel.contraction);
  contraction->score = std::make_shared<Score>(std::move(score));
  contraction->masked_rows_are_zero = c.safe;
  kernel.contraction = contraction;
  if (c.logs) store_logs(kernel);
  return kernel;
}

}  // namespace npusim
