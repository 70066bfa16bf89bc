// Batch and instance normalisation of [N, C, …] by running statistics or by those of the batch or image.
#include "base/error.h"
#include "ops/formula.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

constexpr std::string_view channel_args[] = {"weight", "bias", "running_mean", "running_var"};

void check_channels(const OpCall& call) {
  const Shape& shape = call.type("input").shape;
  if (shape.size() < 2) fail(ErrorKind::bad_input, "{}: input {} has no channels", call.op->name(), to_string(shape));
  for (std::string_view name : channel_args)
    if (call.op->schema.find(name) >= 0 && call.tensor(name) >= 0 && element_count(call.type(name).shape) != shape[1])
      fail(ErrorKind::bad_input, "{}: {} {} does not fit the channels of {}", call.op->name(), name,
           to_string(call.type(name).shape), to_string(shape));
}

bool has_statistics(const OpCall& call) {
  return call.op->schema.find("running_mean") >= 0 && call.tensor("running_mean") >= 0 &&
         call.tensor("running_var") >= 0;
}

// (x − mean) / sqrt(var + eps) · weight + bias, channel by channel.
Ex normalized(OpKernel& k, const OpCall& call, Ex x, Ex mean, Ex scale, const std::vector<Coord>& channel) {
  Ex y = (x - mean) * scale;
  if (const int weight = call.tensor("weight"); weight >= 0) y = y * k.load(k.read(weight), channel);
  if (const int bias = call.tensor("bias"); bias >= 0) y = y + k.load(k.read(bias), channel);
  return y;
}

// The dimensions a batch's statistics are over: all but the channels.
DimSet batch_dims(const Shape& shape) {
  DimSet dims = all_dims(shape.size());
  dims[1] = false;
  return dims;
}

bool trains(const OpCall& call) { return call.op->schema.find("training") >= 0 && call.boolean("training"); }

void lower_row_norm(const OpCall& call, Lowering& lowering, const DimSet& row) {
  RowKernel k(lowering, call.type("input").shape, row);
  const Ex x = k.load_element(lowering.input(0));
  const Ex mean = k.reduce(Reduction::sum, x) / k.size();
  const Ex deviation = x - mean;
  const Ex scale = rsqrt(k.reduce(Reduction::sum, deviation * deviation) / k.size() + call.number("eps"));
  k.store_element(lowering.output(0), normalized(k, call, x, mean, scale, {k.position(1)}));
  if (call.outputs.size() == 3) {
    k.store_row(lowering.output(1), mean);
    k.store_row(lowering.output(2), scale);
  }
  k.done(kernel_name(call));
}

// By the running statistics; by the batch's where it trains and has none to update (weight standardisation does so).
void lower_batch_norm(const OpCall& call, Lowering& lowering) {
  if (trains(call)) return lower_row_norm(call, lowering, batch_dims(call.type("input").shape));
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const std::vector<Coord> channel{k.dim(1)};
  const Ex x = p.arg(0);
  const Ex mean = k.load(k.read(call.tensor("running_mean")), channel);
  const Ex scale = rsqrt(k.load(k.read(call.tensor("running_var")), channel) + call.number("eps"));
  p.store(normalized(k, call, x, mean, scale, channel));
}

// Results after the first are the batch's statistics, empty where the running ones are used.
template <int statistics>
std::vector<TensorType> infer_batch_norm(const OpCall& call) {
  check_channels(call);
  const TensorType& input = call.type("input");
  const Shape shape{trains(call) ? input.shape[1] : 0};
  std::vector<TensorType> types(1 + statistics, {input.dtype == DType::f64 ? DType::f64 : DType::f32, shape});
  types[0] = input;
  return types;
}

std::string refuse_training(const OpCall& call) {
  if (trains(call))
    return has_statistics(call) ? "training=true updates the running statistics; only inference is compiled" : "";
  return has_statistics(call) ? "" : "training=false without running statistics";
}

template <int statistics>
constexpr OpRecord batch_norm(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_batch_norm<statistics>;
  record.lower = lower_batch_norm;
  record.refuse = refuse_training;
  record.tolerance = norm_tolerance;
  return record;
}

std::vector<TensorType> infer_instance_norm(const OpCall& call) {
  check_channels(call);
  return {call.type("input")};
}

std::string refuse_instance_norm(const OpCall& call) {
  return call.boolean("use_input_stats") || has_statistics(call) ? ""
                                                                 : "use_input_stats=false without running statistics";
}

// By the statistics of each image's channel, or by the running ones.
void lower_instance_norm(const OpCall& call, Lowering& lowering) {
  if (!call.boolean("use_input_stats")) return lower_batch_norm(call, lowering);
  const size_t rank = call.type("input").shape.size();
  lower_row_norm(call, lowering, last_dims(rank - 2, rank));
}

constexpr OpRecord instance_norm(std::string_view schema) {
  OpRecord record = row_op(schema, infer_instance_norm, lower_instance_norm, norm_tolerance);
  record.refuse = refuse_instance_norm;
  return record;
}

constexpr OpRecord records[] = {
    batch_norm<0>("batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
                  "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
    batch_norm<2>("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, "
                  "Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    batch_norm<2>("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
                  "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    batch_norm<2>("_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
                  "float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
    instance_norm(
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> batch_norm_ops() { return records; }

}  // namespace npusim
