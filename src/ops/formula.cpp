// Broadcasting, scalars and results of pointwise ops.
#include "ops/formula.h"

#include "base/error.h"

namespace npusim {

Pointwise::Pointwise(const OpCall& call, Lowering& lowering)
    : kernel(lowering, call.outputs[0].shape), call_(call), lowering_(lowering) {}

Ex Pointwise::arg(int nth) {
  int tensors = 0;
  for (const SchemaArg& arg : call_.op->schema.args) {
    if (arg.kind != ArgKind::tensor || tensors++ != nth) continue;
    const int operand = call_.tensor(arg.name);
    if (operand >= 0) return kernel.load_broadcast(kernel.read(lowering_.input(operand)));
    return attr(arg.name);
  }
  fail(ErrorKind::internal, "{} has no tensor argument {}", call_.op->name(), nth);
}

Ex Pointwise::attr(std::string_view name) {
  const Attr& a = call_.attr(name);
  if (const bool* b = std::get_if<bool>(&a)) return kernel.integer(*b, Scalar::boolean);
  if (const int64_t* i = std::get_if<int64_t>(&a)) return kernel.integer(*i);
  const bool wide = call_.outputs[0].dtype == DType::f64;
  return kernel.number(call_.number(name), wide ? Scalar::f64 : Scalar::f32);
}

void Pointwise::store(Ex x) {
  kernel.store(kernel.write(lowering_.output(0)), x);
  const std::string_view name = call_.op->schema.name;
  kernel.done(std::string(name.substr(5, name.rfind('.') - 5)));
}

Ex scalar_attr(Ex x, const OpCall& call, std::string_view name) {
  const Attr& a = call.attr(name);
  if (const double* d = std::get_if<double>(&a)) return literal(x, *d);
  if (const bool* b = std::get_if<bool>(&a)) return x.builder->integer(*b, Scalar::boolean);
  return literal(x, call.integer(name));
}

std::vector<TensorType> infer_pointwise(const OpCall& call) {
  TensorType type;
  bool first = true;
  for (const TensorType* input : call.inputs) {
    if (!input) continue;
    type.dtype = first ? input->dtype : promote_types(type.dtype, input->dtype);
    type.shape = first ? input->shape : broadcast_shapes(type.shape, input->shape);
    first = false;
  }
  return {type};
}

std::vector<TensorType> infer_same(const OpCall& call) { return {*call.inputs[0]}; }

}  // namespace npusim
