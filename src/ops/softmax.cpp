// Softmax and its logarithm along any dimension, and the logarithm of a sum of exponentials.
#include <limits>

#include "base/error.h"
#include "ops/reduce.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// exp(x − max) / Σ exp(x − max), which no large x overflows.
Ex softmax(RowKernel& k, Ex x) {
  const Ex e = exp(x - k.reduce(Reduction::max, x));
  return e / k.reduce(Reduction::sum, e);
}

// A row of −infinity gives zeros instead of NaN.
Ex safe_softmax(RowKernel& k, Ex x) {
  const Ex top = k.reduce(Reduction::max, x);
  const Ex e = exp(x - top);
  return select(top == -infinity, 0.0, e / k.reduce(Reduction::sum, e));
}

Ex log_softmax(RowKernel& k, Ex x) {
  const Ex shifted = x - k.reduce(Reduction::max, x);
  return shifted - log(k.reduce(Reduction::sum, exp(shifted)));
}

// Infinite maxima are left out of the shift: they would make NaN of it.
Ex log_sum_exp(RowKernel& k, Ex x, const OpCall&) {
  const Ex real = is_real(x) ? x : k.cast(x, Scalar::f32);
  const Ex top = k.reduce(Reduction::max, real);
  const Ex shift = select(abs(top) == infinity, 0.0, top);
  return log(k.reduce(Reduction::sum, exp(real - shift))) + shift;
}

std::vector<TensorType> infer_softmax(const OpCall& call) {
  TensorType type = call.type("self");
  normalize_dim(call.integer("dim"), type.shape.size());
  if (call.op->schema.find("dtype") >= 0) {
    type.dtype = call.dtype("dtype").value_or(type.dtype);
  } else if (call.boolean("half_to_float")) {
    if (dtype_size(type.dtype) != 2)
      fail(ErrorKind::bad_input, "{}: half_to_float of {}: expected 16 bits", call.op->name(), dtype_name(type.dtype));
    type.dtype = DType::f32;
  }
  if (!is_float(type.dtype))
    fail(ErrorKind::bad_input, "{}: dtype {}: expected a floating one", call.op->name(), dtype_name(type.dtype));
  return {type};
}

template <auto meaning>
void lower_softmax(const OpCall& call, Lowering& lowering) {
  const Shape& shape = call.inputs[0]->shape;
  RowKernel k(lowering, shape, one_dim(call.integer("dim"), shape.size()));
  const Ex x = converted(k.load_element(lowering.input(0)), call);
  k.store_element(lowering.output(0), meaning(k, is_real(x) ? x : k.cast(x, Scalar::f32)));
  k.done(kernel_name(call));
}

template <auto meaning>
constexpr OpRecord along_dim(std::string_view schema) {
  OpRecord record = row_op(schema, infer_softmax, lower_softmax<meaning>);
  record.memory = Memory::row_major;
  return record;
}

constexpr OpRecord records[] = {
    along_dim<softmax>("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    along_dim<softmax>("special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    along_dim<softmax>("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"),
    along_dim<safe_softmax>("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    along_dim<log_softmax>("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    along_dim<log_softmax>("special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"),
    along_dim<log_softmax>("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"),
    reduction<log_sum_exp>("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", infer_real_reduction),
    reduction<log_sum_exp>("special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
                           infer_real_reduction),
};

}  // namespace

std::span<const OpRecord> softmax_ops() { return records; }

}  // namespace npusim
