// Normalisation by statistics of each row: layer, group and RMS norm.
#include <algorithm>

#include "base/error.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

// Mean and 1/sqrt(variance + eps) of a row, the variance from deviations of the mean.
struct Statistics {
  Ex mean, scale;
};
Statistics statistics(KernelBuilder& k, Ex x, int64_t size, double eps) {
  const Ex mean = k.reduce(Reduction::sum, x) / size;
  const Ex deviation = x - mean;
  return {mean, rsqrt(k.reduce(Reduction::sum, deviation * deviation) / size + eps)};
}

// How many trailing dimensions normalized_shape names; weight and bias have that shape.
size_t normalized_rank(const OpCall& call) {
  const Shape& shape = call.type("input").shape;
  const Shape normalized = call.ints("normalized_shape");
  if (normalized.empty() || normalized.size() > shape.size() ||
      !std::equal(normalized.rbegin(), normalized.rend(), shape.rbegin()))
    fail(ErrorKind::bad_input, "{}: normalized_shape {} does not end input {}", call.op->name(), to_string(normalized),
         to_string(shape));
  for (const char* name : {"weight", "bias"})
    if (call.op->schema.find(name) >= 0 && call.tensor(name) >= 0 && call.type(name).shape != normalized)
      fail(ErrorKind::bad_input, "{}: {} {} is not normalized_shape {}", call.op->name(), name,
           to_string(call.type(name).shape), to_string(normalized));
  return normalized.size();
}

std::vector<TensorType> infer_layer_norm(const OpCall& call) {
  normalized_rank(call);
  return {call.type("input")};
}

// Beside the result, statistics per row with 1 in place of the normalised dimensions.
template <int count>
std::vector<TensorType> infer_layer_statistics(const OpCall& call) {
  const TensorType& input = call.type("input");
  const size_t rank = input.shape.size();
  const DType dtype = input.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<TensorType> types(1 + count,
                                {dtype, reduced_shape(input.shape, last_dims(normalized_rank(call), rank), true)});
  types[0] = input;
  return types;
}

void lower_layer_norm(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.type("input").shape;
  RowKernel k(lowering, shape, last_dims(normalized_rank(call), shape.size()));
  const Ex x = k.load_element(lowering.input(0));
  const Statistics s = statistics(k, x, k.size(), call.number("eps"));
  Ex y = (x - s.mean) * s.scale;
  if (const int weight = call.tensor("weight"); weight >= 0) y = y * k.load_row(weight);
  if (const int bias = call.tensor("bias"); bias >= 0) y = y + k.load_row(bias);
  k.store_element(lowering.output(0), y);
  if (call.outputs.size() == 3) {
    k.store_row(lowering.output(1), s.mean);
    k.store_row(lowering.output(2), s.scale);
  }
  k.done("layer_norm");
}

// Without eps, the rounding step of what ATen computes in: float32 for 16 bits.
double rms_eps(const OpCall& call) {
  if (!call.is_none("eps")) return call.number("eps");
  return call.type("input").dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
}

void lower_rms_norm(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.type("input").shape;
  RowKernel k(lowering, shape, last_dims(normalized_rank(call), shape.size()));
  const Ex x = k.load_element(lowering.input(0));
  const Ex scale = rsqrt(k.reduce(Reduction::sum, x * x) / k.size() + rms_eps(call));
  const int weight = call.tensor("weight");
  k.store_element(lowering.output(0), weight >= 0 ? x * scale * k.load_row(weight) : x * scale);
  if (call.outputs.size() == 2) k.store_row(lowering.output(1), scale);
  k.done("rms_norm");
}

void check_channels(const OpCall& call, int64_t channels) {
  for (const char* name : {"weight", "bias"})
    if (call.tensor(name) >= 0 && call.type(name).shape != Shape{channels})
      fail(ErrorKind::bad_input, "{}: {} {} does not fit {} channels", call.op->name(), name,
           to_string(call.type(name).shape), channels);
}

// input [N, C, …] as rows of C/groups channels and all positions, one per image and group.
void lower_groups(const OpCall& call, Lowering& lowering, int64_t groups, double eps) {
  const Shape& shape = call.type("input").shape;
  const int64_t width = shape[1] / groups;
  Shape space{shape[0], groups, width};
  space.insert(space.end(), shape.begin() + 2, shape.end());
  OpKernel k(lowering, space, static_cast<int>(space.size()) - 2);
  const Affine channel = k.dim(1) * width + k.dim(2);
  std::vector<Coord> at{k.dim(0), channel};
  for (size_t d = 2; d < shape.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d) + 1));
  const Ex x = k.load(k.read(lowering.input(0)), at);
  int64_t size = width;
  for (size_t d = 2; d < shape.size(); ++d) size *= shape[d];
  const Statistics s = statistics(k, x, size, eps);
  Ex y = (x - s.mean) * s.scale;
  const std::vector<Coord> per_channel{channel};
  if (const int weight = call.tensor("weight"); weight >= 0) y = y * k.load(k.read(weight), per_channel);
  if (const int bias = call.tensor("bias"); bias >= 0) y = y + k.load(k.read(bias), per_channel);
  k.store(k.write(lowering.output(0)), at, y);
  if (call.outputs.size() == 3) {
    const std::vector<Coord> row{k.dim(0), k.dim(1)};
    k.store(k.write(lowering.output(1)), row, s.mean);
    k.store(k.write(lowering.output(2)), row, s.scale);
  }
  k.done(kernel_name(call));
}

void check_groups(const OpCall& call, int64_t groups) {
  const Shape& shape = call.type("input").shape;
  if (shape.size() < 2 || groups < 1 || shape[1] % groups)
    fail(ErrorKind::bad_input, "{}: the channels of {} do not form {} groups", call.op->name(), to_string(shape),
         groups);
  check_channels(call, shape[1]);
}

std::vector<TensorType> infer_group_norm(const OpCall& call) {
  check_groups(call, call.integer("num_groups"));
  return {call.type("input")};
}
void lower_group_norm(const OpCall& call, Lowering& lowering) {
  lower_groups(call, lowering, call.integer("num_groups"), call.number("eps"));
}

std::vector<TensorType> infer_native_group_norm(const OpCall& call) {
  check_groups(call, call.integer("group"));
  const TensorType& input = call.type("input");
  const int64_t n = call.integer("N"), c = call.integer("C"), inner = call.integer("HxW");
  const Shape sizes{n, c, inner};
  if (n != input.shape[0] || c != input.shape[1] || inner < 0 || element_count(sizes) != element_count(input.shape))
    fail(ErrorKind::bad_input, "{}: N, C and HxW {} are not those of {}", call.op->name(), to_string(sizes),
         to_string(input.shape));
  const TensorType row{input.dtype == DType::f64 ? DType::f64 : DType::f32, {input.shape[0], call.integer("group")}};
  return {input, row, row};
}
void lower_native_group_norm(const OpCall& call, Lowering& lowering) {
  lower_groups(call, lowering, call.integer("group"), call.number("eps"));
}

constexpr OpRecord normalization(std::string_view schema, std::vector<TensorType> (*infer)(const OpCall&),
                                 void (*lower)(const OpCall&, Lowering&)) {
  return row_op(schema, infer, lower, norm_tolerance);
}

constexpr OpRecord records[] = {
    normalization("layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
                  "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
                  infer_layer_norm, lower_layer_norm),
    normalization("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
                  "-> (Tensor, Tensor, Tensor)",
                  infer_layer_statistics<2>, lower_layer_norm),
    normalization("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
                  infer_layer_norm, lower_rms_norm),
    normalization(
        "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
        infer_layer_statistics<1>, lower_rms_norm),
    normalization("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
                  "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
                  infer_group_norm, lower_group_norm),
    normalization(
        "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
        "float eps) -> (Tensor, Tensor, Tensor)",
        infer_native_group_norm, lower_native_group_norm),
};

}  // namespace

std::span<const OpRecord> normalize_ops() { return records; }

}  // namespace npusim
