// Broadcasting, scalars, promotion and results of pointwise ops.
#include "ops/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace npusim {
namespace {

// ATen's combine_categories: `lower` counts only where its category is above that of `higher`.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_float(*higher)) return higher;
  if (*higher == DType::boolean || is_float(*lower)) return promote_types(*higher, *lower);
  return higher;
}

// A number is converted like any operand, where the results are integers.
int64_t wrapped(const OpCall& call, int64_t number) {
  return is_float(call.outputs[0].dtype) ? number : converted(number, common_dtype(call));
}

}  // namespace

Pointwise::Pointwise(const OpCall& call, Lowering& lowering)
    : kernel(lowering, call.outputs[0].shape), call_(call), lowering_(lowering) {}

// ATen converts operands before it computes: a logarithm of integers beside float64 is one of float64. Booleans, which
// may be conditions, are the same numbers in any type.
Ex Pointwise::computed(Ex x) {
  const DType result = call_.outputs[0].dtype, common = common_dtype(call_);
  if (!is_float(result) || x.type() == Scalar::boolean) return x;
  return kernel.cast(x, is_float(common) ? std::max(scalar_of(common), scalar_of(result)) : scalar_of(result));
}

Ex Pointwise::arg(int nth) {
  int tensors = 0;
  for (const SchemaArg& arg : call_.op->schema.args) {
    if (arg.kind != ArgKind::tensor || tensors++ != nth) continue;
    const int operand = call_.tensor(arg.name);
    if (operand < 0) {
      const int64_t* number = std::get_if<int64_t>(&call_.attr(arg.name));
      return computed(number ? kernel.integer(wrapped(call_, *number)) : attr(arg.name));
    }
    const Ex x = kernel.load_broadcast(kernel.read(lowering_.input(operand)));
    const DType common = common_dtype(call_);
    // Quotients of integers and the like are of them as they are.
    const bool as_common = is_float(common) || !is_float(call_.outputs[0].dtype);
    return computed(as_common ? converted(x, call_.type(arg.name).dtype, common) : x);
  }
  fail(ErrorKind::internal, "{} has no tensor argument {}", call_.op->name(), nth);
}

Ex Pointwise::attr(std::string_view name) {
  const Attr& a = call_.attr(name);
  if (const bool* b = std::get_if<bool>(&a)) return kernel.integer(*b, Scalar::boolean);
  if (const int64_t* i = std::get_if<int64_t>(&a)) return kernel.integer(*i);
  const bool wide = call_.outputs[0].dtype == DType::f64 ||
                    std::any_of(call_.inputs.begin(), call_.inputs.end(),
                                [](const TensorType* t) { return t && t->dtype == DType::f64; });
  return kernel.number(call_.number(name), wide ? Scalar::f64 : Scalar::f32);
}

void Pointwise::store(Ex x) {
  kernel.store(kernel.write(lowering_.output(0)), x);
  kernel.done(kernel_name(call_));
}

Ex scalar_attr(Ex x, const OpCall& call, std::string_view name) {
  const Attr& a = call.attr(name);
  if (const double* d = std::get_if<double>(&a)) return literal(x, *d);
  if (const bool* b = std::get_if<bool>(&a)) return x.builder->integer(*b, Scalar::boolean);
  return literal(x, wrapped(call, call.integer(name)));
}

Ex stored_attr(KernelBuilder& kernel, const OpCall& call, std::string_view name, DType dtype) {
  const double real = call.number(name);
  const auto misfit = [&](const std::string& value) {
    fail(ErrorKind::unsupported, "{}: {} {} does not fit {}", call.op->name(), name, value, dtype_name(dtype));
  };
  if (dtype == DType::f32 && std::isfinite(real) && std::fabs(real) > std::numeric_limits<float>::max())
    misfit(fmt::to_string(real));  // of 16 bits a program may be whose model has 32
  if (is_float(dtype)) return kernel.number(real, scalar_of(dtype));
  if (dtype == DType::boolean) return kernel.integer(real != 0);
  const bool fits = std::fabs(real) < 0x1p63 || !call.is_real(name);
  const int64_t whole = !fits ? 0 : call.is_real(name) ? static_cast<int64_t>(real) : call.integer(name);
  // Of uint8 negative integers count from 256, as everywhere in ATen.
  const int64_t wrapped = wrap_through(dtype, whole);
  const bool below = dtype == DType::u8 && call.is_real(name) && real < 0;
  if (!fits || below || (wrapped != whole && !(dtype == DType::u8 && whole < 0 && whole > -256)))
    misfit(call.is_real(name) ? fmt::to_string(real) : fmt::to_string(whole));
  return kernel.integer(wrapped);
}

DType scalar_dtype(const Attr& a) {
  if (std::holds_alternative<bool>(a)) return DType::boolean;
  return std::holds_alternative<int64_t>(a) ? DType::i64 : DType::f32;
}

DType common_dtype(const OpCall& call) {
  std::optional<DType> tensors, zero_dim, scalars;
  auto add = [](std::optional<DType>& to, DType d) { to = to ? promote_types(*to, d) : d; };
  for (const TensorType* input : call.inputs)
    if (input) add(input->shape.empty() ? zero_dim : tensors, input->dtype);
  const std::vector<SchemaArg>& args = call.op->schema.args;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool number = !std::holds_alternative<std::monostate>(call.attrs[i]);
    if (number && (args[i].kind == ArgKind::tensor || (args[i].kind == ArgKind::scalar && args[i].name != "alpha")))
      add(scalars, scalar_dtype(call.attrs[i]));
  }
  return combine(tensors, combine(zero_dim, scalars)).value_or(DType::f32);
}

Ex converted(Ex x, DType from, DType common) {
  if (common == DType::boolean || promote_types(from, common) == common) return x;
  if (!is_float(from)) return is_float(common) ? x : x.builder->round_to(x, common);
  return from == DType::f64 && is_float(common) ? x.builder->cast(x, Scalar::f32) : x;
}

int64_t converted(int64_t number, DType common) {
  return is_float(common) || common == DType::boolean ? number : wrap_through(common, number);
}

std::string kernel_name(const OpCall& call) {
  const std::string_view name = call.op->schema.name;
  return std::string(name.substr(5, name.rfind('.') - 5));
}

std::vector<TensorType> infer_pointwise(const OpCall& call) {
  TensorType type{common_dtype(call), {}};
  for (const TensorType* input : call.inputs)
    if (input) type.shape = broadcast_shapes(type.shape, input->shape);
  return {type};
}

std::vector<TensorType> infer_real(const OpCall& call) {
  std::vector<TensorType> types = infer_pointwise(call);
  if (!is_float(types[0].dtype)) types[0].dtype = DType::f32;
  return types;
}

std::vector<TensorType> infer_boolean(const OpCall& call) {
  std::vector<TensorType> types = infer_pointwise(call);
  types[0].dtype = DType::boolean;
  return types;
}

std::vector<TensorType> infer_same(const OpCall& call) { return {*call.inputs[0]}; }

}  // namespace npusim
