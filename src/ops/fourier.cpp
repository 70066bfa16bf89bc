// Fourier transforms along a dimension, of complex numbers as two tensors: npusim.export writes them for torch.fft.
#include <fmt/format.h>

#include "base/error.h"
#include "ops/op.h"
#include "ops/view.h"

namespace npusim {
namespace {

size_t dim_of(const OpCall& call) {
  const Shape& shape = call.type("re").shape;
  if (shape.empty()) fail(ErrorKind::bad_input, "{}: re needs at least one dimension", call.op->name());
  return static_cast<size_t>(normalize_dim(call.integer("dim"), shape.size()));
}

// What a result along the dimension has, of operands that fit.
TensorType with_extent(const OpCall& call, int64_t extent) {
  TensorType type = call.type("re");
  const int im = call.tensor("im");
  if (!is_float(type.dtype))
    fail(ErrorKind::bad_input, "{}: re is {}, expected floats", call.op->name(), dtype_name(type.dtype));
  if (im >= 0 && *call.inputs[static_cast<size_t>(im)] != type)
    fail(ErrorKind::bad_input, "{}: re is {}, im {}", call.op->name(), to_string(type),
         to_string(*call.inputs[static_cast<size_t>(im)]));
  type.shape[dim_of(call)] = extent;
  return type;
}

std::vector<TensorType> infer_fourier(const OpCall& call) {
  const int64_t size = call.type("re").shape.empty() ? 0 : call.type("re").shape[dim_of(call)];
  const int64_t bins = call.integer("bins");
  const TensorType type = with_extent(call, bins);
  if (size < 1 || bins < 1 || bins > size)
    fail(ErrorKind::bad_input, "{}: {} bins of a dimension of {}", call.op->name(), bins, size);
  return {type, type};
}

std::vector<TensorType> infer_signal(const OpCall& call) {
  const int64_t size = call.integer("size");
  const TensorType type = with_extent(call, size);
  if (const int64_t half = call.type("re").shape[dim_of(call)];
      size < 1 || size > (int64_t{1} << 56) || half != size / 2 + 1)
    fail(ErrorKind::bad_input, "{}: {} bins are not half of a spectrum of {}", call.op->name(), half, size);
  return {type};
}

// One kernel over rows of `size` elements along dimension `dim`, of which the operands and results have the first.
struct Transform {
  Transform(Lowering& lowering, size_t dim, int64_t size)
      : lowering(lowering), dim(dim), k(lowering, space_of(lowering.type(lowering.input(0)).shape, dim, size), 1) {}

  static Shape space_of(Shape shape, size_t dim, int64_t size) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
    shape.push_back(size);
    return shape;
  }
  std::vector<Coord> position() const {
    const int row = static_cast<int>(k.space().size()) - 1;
    std::vector<Coord> at;
    for (int d = 0; d < row; ++d) at.emplace_back(k.dim(d));
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), Coord(k.dim(row)));
    return at;
  }
  Ex load(int operand) { return k.load(k.read(operand), position()); }
  // What is declared of another type is converted behind the kernel, which does nothing but its transform.
  void store(int result, Ex x, double scale) {
    const TensorType declared = lowering.type(result);
    int to = result;
    if (scalar_of(declared.dtype) != x.type()) {
      to = lowering.temporary({lowering.type(lowering.input(0)).dtype, declared.shape});
      converted.emplace_back(to, result);
    }
    k.store(k.write(to), position(), scale == 1 ? x : x * scale);
  }
  void done(std::string name) {
    k.done(std::move(name));
    for (const auto& [from, to] : converted) lower_flat(lowering, "fourier_as_declared", from, to);
  }

  Lowering& lowering;
  size_t dim;
  OpKernel k;
  std::vector<std::pair<int, int>> converted = {};  // operands: from, to
};

// No rows: kernels that store nothing.
bool lower_nothing(const OpCall& call, Lowering& lowering) {
  if (element_count(call.outputs[0].shape) > 0) return false;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    OpKernel k(lowering, call.outputs[i].shape);
    k.store(k.write(lowering.output(static_cast<int>(i))), k.number(0, scalar_of(call.outputs[i].dtype)));
    k.done("nothing");
  }
  return true;
}

void lower_fourier(const OpCall& call, Lowering& lowering) {
  if (lower_nothing(call, lowering)) return;
  const size_t dim = dim_of(call);
  const int64_t size = call.type("re").shape[dim];
  const int im = call.tensor("im");
  const bool inverse = call.boolean("inverse");
  const double scale = call.number("scale");
  Transform t(lowering, dim, size);
  const Ex x = t.load(lowering.input(0)), y = im >= 0 ? t.load(lowering.input(im)) : literal(x, 0.0);
  if (size == 1) {
    t.store(lowering.output(0), x, scale);
    t.store(lowering.output(1), y, scale);
    return t.done("fourier_of_one");
  }
  // For the inverse real and imaginary parts are exchanged; of real rows the imaginary part has another sign.
  const bool exchanged = inverse && im >= 0;
  const Ex a = exchanged ? y : x, b = exchanged ? x : y;
  const Ex re = t.k.fourier(exchanged ? ExprOp::fourier_im : ExprOp::fourier_re, a, b);
  const Ex imaginary = t.k.fourier(exchanged ? ExprOp::fourier_re : ExprOp::fourier_im, a, b);
  t.store(lowering.output(0), re, scale);
  t.store(lowering.output(1), imaginary, inverse && im < 0 ? -scale : scale);
  t.done("fourier");
}

void lower_signal(const OpCall& call, Lowering& lowering) {
  if (lower_nothing(call, lowering)) return;
  const int64_t size = call.integer("size");
  const double scale = call.number("scale");
  Transform t(lowering, dim_of(call), size);
  const Ex re = t.load(lowering.input(0));
  if (size == 1) {
    t.store(lowering.output(0), re, scale);
    return t.done("fourier_of_one");
  }
  t.store(lowering.output(0), t.k.fourier(ExprOp::fourier_signal, re, t.load(lowering.input(1))), scale);
  t.done("fourier_signal");
}

constexpr OpRecord records[] = {
    {.schema = "npusim.fourier.default(Tensor re, Tensor? im, int dim, bool inverse, SymInt bins, float scale) -> "
               "(Tensor, Tensor)",
     .family = OpFamily::contract,
     .infer = infer_fourier,
     .lower = lower_fourier,
     .tolerance = 16},
    {.schema = "npusim.fourier_signal.default(Tensor re, Tensor im, int dim, SymInt size, float scale) -> Tensor",
     .family = OpFamily::contract,
     .infer = infer_signal,
     .lower = lower_signal,
     .tolerance = 16},
};

}  // namespace

std::span<const OpRecord> fourier_ops() { return records; }

}  // namespace npusim
