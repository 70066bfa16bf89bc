// Batch and instance normalisation of [N, C, …] at inference.
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
    if (call.tensor(name) >= 0 && element_count(call.type(name).shape) != shape[1])
      fail(ErrorKind::bad_input, "{}: {} {} does not fit the channels of {}", call.op->name(), name,
           to_string(call.type(name).shape), to_string(shape));
}

bool has_statistics(const OpCall& call) { return call.tensor("running_mean") >= 0 && call.tensor("running_var") >= 0; }

// (x − mean) / sqrt(var + eps) · weight + bias, channel by channel.
Ex normalized(OpKernel& k, const OpCall& call, Ex x, Ex mean, Ex scale, const std::vector<Coord>& channel) {
  Ex y = (x - mean) * scale;
  if (const int weight = call.tensor("weight"); weight >= 0) y = y * k.load(k.read(weight), channel);
  if (const int bias = call.tensor("bias"); bias >= 0) y = y + k.load(k.read(bias), channel);
  return y;
}

// Results after the first are statistics of training, empty at inference.
void lower_batch_norm(const OpCall& call, Lowering& lowering) {
  Pointwise p(call, lowering);
  OpKernel& k = p.kernel;
  const std::vector<Coord> channel{k.dim(1)};
  const Ex x = p.arg(0);
  const Ex mean = k.load(k.read(call.tensor("running_mean")), channel);
  const Ex scale = rsqrt(k.load(k.read(call.tensor("running_var")), channel) + call.number("eps"));
  p.store(normalized(k, call, x, mean, scale, channel));
}

template <int empty>
std::vector<TensorType> infer_batch_norm(const OpCall& call) {
  check_channels(call);
  std::vector<TensorType> types(1 + empty, {DType::f32, {0}});
  types[0] = call.type("input");
  return types;
}

std::string refuse_training(const OpCall& call) {
  if (call.op->schema.find("training") >= 0 && call.boolean("training"))
    return "training=true normalises by the batch and updates the running statistics; only inference is compiled";
  return has_statistics(call) ? ""
                              : "without running statistics it normalises by the batch; only inference is compiled";
}

template <int empty>
constexpr OpRecord batch_norm(std::string_view schema) {
  OpRecord record;
  record.schema = schema;
  record.infer = infer_batch_norm<empty>;
  record.lower = lower_batch_norm;
  record.refuse = refuse_training;
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
  const Shape& shape = call.type("input").shape;
  RowKernel k(lowering, shape, last_dims(shape.size() - 2, shape.size()));
  const Ex x = k.load_element(lowering.input(0));
  const Ex mean = k.reduce(Reduction::sum, x) / k.size();
  const Ex deviation = x - mean;
  const Ex scale = rsqrt(k.reduce(Reduction::sum, deviation * deviation) / k.size() + call.number("eps"));
  const std::vector<Coord> channel{k.position(1)};
  k.store_element(lowering.output(0), normalized(k, call, x, mean, scale, channel));
  k.done("instance_norm");
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
    instance_norm(
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> batch_norm_ops() { return records; }

}  // namespace npusim
