// Convolutions: conv1d to conv3d with their padding modes, the transposed ones, and the general forms.
#include "ops/conv.h"

#include "base/error.h"
#include "ops/formula.h"

namespace npusim {
namespace {

// 'same' keeps the extent, with the odd element of padding at the end.
void set_padding(const OpCall& call, ConvSpec& spec, const Shape& weight) {
  const size_t spatial = weight.size() - 2;
  const Attr& padding = call.attr("padding");
  if (!std::holds_alternative<std::string>(padding)) {
    spec.before = spec.after = call.ints("padding", spatial);
    return;
  }
  const std::string mode = call.text("padding");
  spec.before.assign(spatial, 0);
  spec.after.assign(spatial, 0);
  if (mode == "valid") return;
  if (mode != "same")
    fail(ErrorKind::bad_input, "{}: padding must be 'same' or 'valid', found '{}'", call.op->name(), mode);
  for (size_t d = 0; d < spatial; ++d) {
    if (spec.stride[d] != 1) fail(ErrorKind::bad_input, "{}: padding='same' needs a stride of 1", call.op->name());
    const int64_t total = spec.dilation[d] * (weight[2 + d] - 1);
    spec.before[d] = total / 2;
    spec.after[d] = total - total / 2;
  }
}

ConvSpec spec_of(const OpCall& call) {
  const Shape& weight = call.type("weight").shape;
  if (weight.size() < 3)
    fail(ErrorKind::bad_input, "{}: weight {} has no spatial dimension", call.op->name(), to_string(weight));
  const size_t spatial = weight.size() - 2;
  ConvSpec spec;
  spec.stride = call.ints("stride", spatial);
  spec.dilation = call.ints("dilation", spatial);
  spec.groups = call.integer("groups");
  if (call.op->schema.find("transposed") >= 0)
    spec.transposed = call.boolean("transposed");
  else
    spec.transposed = call.op->schema.find("output_padding") >= 0;
  spec.output_padding.assign(spatial, 0);
  if (spec.transposed) spec.output_padding = call.ints("output_padding", spatial);
  for (std::vector<int64_t>* list : {&spec.stride, &spec.dilation, &spec.output_padding})
    if (list->empty()) list->assign(spatial, list == &spec.output_padding ? 0 : 1);
  set_padding(call, spec, weight);
  if (spec.before.empty()) spec.before = spec.after = std::vector<int64_t>(spatial, 0);
  return spec;
}

std::vector<TensorType> infer_conv(const OpCall& call) {
  const Shape shape = conv_shape(call, spec_of(call), call.type("input").shape, call.type("weight").shape);
  const Shape& input = call.type("input").shape;
  const int64_t channels = shape[input.size() == call.type("weight").shape.size()];
  if (call.tensor("bias") >= 0 && call.type("bias").shape != Shape{channels})
    fail(ErrorKind::bad_input, "{}: bias must be [{}], found {}", call.op->name(), channels,
         to_string(call.type("bias")));
  return {{promote_types(call.type("input").dtype, call.type("weight").dtype), shape}};
}

void lower_conv_call(const OpCall& call, Lowering& lowering) {
  lower_conv(lowering, kernel_name(call), spec_of(call), lowering.input(call.tensor("input")),
             lowering.input(call.tensor("weight")), call.tensor("bias"), lowering.output(0));
}

constexpr OpRecord conv(std::string_view schema) { return contraction(schema, infer_conv, lower_conv_call); }

constexpr OpRecord records[] = {
    conv("conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
         "SymInt[1] dilation=[1], SymInt groups=1) -> Tensor"),
    conv("conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", "
         "SymInt[1] dilation=[1], SymInt groups=1) -> Tensor"),
    conv("conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
         "SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"),
    conv("conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
         "str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"),
    conv("conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, "
         "0], "
         "SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor"),
    conv("conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
         "str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor"),
    conv(
        "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, "
        "SymInt groups) -> Tensor"),
    conv("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
         "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"),
    conv(
        "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        "bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, "
        "bool cudnn_enabled, bool allow_tf32) -> Tensor"),
    conv("_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
         "SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, "
         "bool cudnn_enabled) -> Tensor"),
    conv(
        "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
        "SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor"),
    conv("conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
         "SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> "
         "Tensor"),
    conv("conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
         "SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, "
         "SymInt[3] dilation=[1, 1, 1]) -> Tensor"),
};

}  // namespace

std::span<const OpRecord> conv_ops() { return records; }

}  // namespace npusim
