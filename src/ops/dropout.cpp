// Dropout: its operand at inference, elements or channels at random in training.
#include <fmt/format.h>

#include <cmath>

#include "ops/formula.h"
#include "ops/philox.h"

namespace npusim {
namespace {

bool drops(const OpCall& call) {
  const bool train = call.is_none("train") || call.boolean("train");
  return train && call.number("p") != 0;
}

std::string refuse_dropout(const OpCall& call) {
  if (!drops(call)) return "";
  const double p = call.number("p");
  if (!(p > 0 && p <= 1)) return fmt::format("expected 0 <= p <= 1, found {}", p);
  const TensorType& input = *call.inputs[0];
  if (!is_float(input.dtype)) return fmt::format("drops no elements of {}", dtype_name(input.dtype));
  const bool channels = call.op->name().find("feature") != std::string::npos;
  return channels && input.shape.size() < 2 ? "drops channels of at least two dimensions" : "";
}

// Channels are the first two dimensions.
template <bool channels>
void lower_dropout(const OpCall& call, Lowering& lowering) {
  OpKernel k(lowering, call.outputs[0].shape);
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  if (!drops(call)) {
    k.store(k.write(lowering.output(0)), x);
    return k.done("dropout");
  }
  const double p = call.number("p");
  const Draw drawn = channels ? draw(k, lowering, 2) : draw(k, lowering);
  const Ex kept = drawn.chance(1 - p);
  k.store(k.write(lowering.output(0)), x * select(kept, k.number(p == 1 ? 0 : 1 / (1 - p), x.type()), 0.0));
  k.done("dropout");
}

// What is dropped becomes the value that large negative inputs of selu have; mean and variance stay.
template <bool channels>
void lower_alpha(const OpCall& call, Lowering& lowering) {
  if (!drops(call) || call.number("p") == 1) return lower_dropout<channels>(call, lowering);
  OpKernel k(lowering, call.outputs[0].shape);
  const Ex x = k.load_broadcast(k.read(lowering.input(0)));
  const double p = call.number("p"), alpha = 1.7580993408473766;
  const double scale = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  const Draw drawn = channels ? draw(k, lowering, 2) : draw(k, lowering);
  const Ex kept = drawn.chance(1 - p);
  const Ex y = x * select(kept, k.number(scale, x.type()), 0.0) +
               select(kept, k.number(alpha * scale * p, x.type()), alpha * scale * (p - 1));
  k.store(k.write(lowering.output(0)), y);
  k.done("dropout");
}

constexpr OpRecord dropout(std::string_view schema, void (*lower)(const OpCall&, Lowering&)) {
  OpRecord record = formula<[](Ex x) { return x; }>(schema, 0);
  record.infer = infer_same;
  record.lower = lower;
  record.refuse = refuse_dropout;
  record.memory = Memory::itself;  // ATen returns its operand where nothing is dropped
  record.draws = drops;
  return record;
}

// Its second result says what was kept.
constexpr OpRecord native_dropout(std::string_view schema) {
  OpRecord record = dropout(schema, nullptr);
  record.memory = Memory::iterated;
  record.infer = [](const OpCall& call) {
    return std::vector<TensorType>{*call.inputs[0], {DType::boolean, call.inputs[0]->shape}};
  };
  record.lower = [](const OpCall& call, Lowering& lowering) {
    OpKernel k(lowering, call.outputs[0].shape);
    const Ex x = k.load_broadcast(k.read(lowering.input(0)));
    const double p = call.number("p");
    const Ex kept = drops(call) ? draw(k, lowering).chance(1 - p) : k.integer(1, Scalar::boolean);
    const double scale = p == 1 ? 0 : 1 / (1 - p);
    k.store(k.write(lowering.output(0)), drops(call) ? x * select(kept, k.number(scale, x.type()), 0.0) : x);
    k.store(k.write(lowering.output(1)), kept);
    k.done("dropout");
  };
  return record;
}

constexpr OpRecord records[] = {
    dropout("dropout(Tensor input, float p, bool train) -> Tensor", lower_dropout<false>),
    dropout("feature_dropout(Tensor input, float p, bool train) -> Tensor", lower_dropout<true>),
    dropout("alpha_dropout(Tensor input, float p, bool train) -> Tensor", lower_alpha<false>),
    dropout("feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", lower_alpha<true>),
    native_dropout("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"),
};

}  // namespace

std::span<const OpRecord> dropout_ops() { return records; }

}  // namespace npusim
