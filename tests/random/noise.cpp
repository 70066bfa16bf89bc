// Rounding errors as random numbers.
#include "random/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace npusim::test {
namespace {

bool is_rounding(const Expr& e) {
  if (e.type < Scalar::f32) return false;
  switch (e.op) {
    case ExprOp::constant:
    case ExprOp::load:
    case ExprOp::neg:
    case ExprOp::abs:
    case ExprOp::floor:
    case ExprOp::ceil:
    case ExprOp::round:
    case ExprOp::trunc:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::select:
      return false;
    case ExprOp::reduce:
    case ExprOp::scan:
      return e.reduction == Reduction::sum || e.reduction == Reduction::product;
    default:
      return true;
  }
}

// Whether a result of this dtype may hold fewer digits than what it is made from.
bool narrows(const Kernel& k, DType result) {
  if (!is_float(result)) return false;
  bool same = true, reads = false;
  for (const KernelArg& arg : k.args) {
    if (arg.written || !is_float(arg.dtype)) continue;
    reads = true;
    same = same && (arg.dtype == result || (arg.dtype <= DType::bf16 && result >= DType::f32) || result == DType::f64);
  }
  return !same || (!reads && result != DType::f64);
}

bool is_arithmetic(ExprOp op) { return op == ExprOp::add || op == ExprOp::sub || op == ExprOp::mul || op == ExprOp::div; }

}  // namespace

CallTraits traits_of(const Lowering& lowering) {
  CallTraits traits;
  int roundings = 0;
  for (const Lowering::Call& call : lowering.calls) {
    const Kernel& k = call.kernel;
    double row = 1;
    for (size_t d = k.space.size() - static_cast<size_t>(k.row_dims); d < k.space.size(); ++d)
      row *= static_cast<double>(k.space[d]);
    for (const Expr& e : k.exprs) {
      if (!is_rounding(e)) continue;
      // An integer that a float32 does not hold is rounded by its cast.
      roundings += is_arithmetic(e.op) || e.op == ExprOp::cast || e.op == ExprOp::round_to ? 1 : 2;
      if (e.op == ExprOp::reduce || e.op == ExprOp::scan) traits.terms = std::max(traits.terms, row);
    }
    for (const Store& s : k.stores)
      if (s.accumulate && k.exprs[static_cast<size_t>(s.expr)].type >= Scalar::f32) {
        roundings += 2;
        traits.terms = std::max(traits.terms, static_cast<double>(element_count(k.space)));
      }
    for (const Store& s : k.stores) roundings += narrows(k, k.args[static_cast<size_t>(s.access.arg)].dtype);
    if (!k.contraction) continue;
    double products = 1;
    for (const int64_t n : k.contraction->reduce) products *= static_cast<double>(n);
    if (k.contraction->score && k.contraction->score->contraction)
      for (const int64_t n : k.contraction->score->contraction->reduce) products *= static_cast<double>(n);
    traits.terms = std::max(traits.terms, products);
    // Winograd's transforms: filters of 3x3, sums of tiles of 6x6.
    const std::vector<int64_t>& reduce = k.contraction->reduce;
    if (k.contraction->kind == ContractionKind::conv && reduce.size() == 3 && reduce[1] == 3 && reduce[2] == 3)
      traits.window = 5;
    roundings += 2;
  }
  traits.exact = roundings == 0;
  traits.simple = roundings <= 1;
  return traits;
}

double NoiseSource::unit(DType dtype) const {
  const auto step = [](DType d) {
    return d == DType::bf16 ? 0x1p-7 : d == DType::f16 ? 0x1p-10 : d == DType::f64 ? 0x1p-52 : 0x1p-23;
  };
  if (dtype == DType::f64) return step(dtype);
  return std::max(step(dtype), step(noise_.storage));
}

void NoiseSource::disturb(HostTensor& tensor, double steps) {
  const DType dtype = tensor.type.dtype;
  const double size = steps * unit(dtype);
  const double least = dtype == DType::f64 ? 0 : noise_.storage == DType::f16 ? 0x1p-14 : 0x1p-126;
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i) {
    double x = load_double(tensor.data.data(), dtype, i);
    if (std::isnan(x) || std::isinf(x)) continue;
    if (noise_.round && dtype != DType::f64) x = round_through(noise_.storage, x);
    // Never so little that rounding undoes it: what stays as it is counts as exact.
    const double error = uniform();
    const double off = x * (1 + size * (error < 0 ? error - 1 : error + 1) / 2);
    // Small numbers lose digits and may become zero, whose sign is then any.
    if (x != 0 && std::fabs(x) < 4 * least) x = uniform() < 0 ? 0.0 : off + least * unit(dtype) * uniform();
    else x = off;
    if (x == 0 && random_() % 2) x = -x;
    store_double(tensor.data.data(), dtype, i, x);
  }
}

void NoiseSource::disturb_operand(HostTensor& tensor, const CallTraits& traits) {
  if (is_float(tensor.type.dtype)) disturb(tensor, 1 + std::sqrt(traits.terms) / 3);
}

void NoiseSource::disturb_result(HostTensor& tensor, const CallTraits& traits) {
  if (!is_float(tensor.type.dtype)) return;
  const DType dtype = tensor.type.dtype;
  // What is too large for float16 is an infinity only where it is stored.
  for (int64_t i = 0; dtype == DType::f16 && i < element_count(tensor.type.shape); ++i)
    if (const double x = load_double(tensor.data.data(), dtype, i); std::isinf(x) && random_() % 2)
      store_double(tensor.data.data(), dtype, i, std::copysign(65504.0, x));
  if (traits.exact) return;
  disturb(tensor, 2 + std::sqrt(traits.terms) / 4);
  const size_t rank = tensor.type.shape.size();
  if (traits.window == 0 || rank < 2) return;
  // Errors of one tile are as large as its largest element allows.
  const int64_t rows = tensor.type.shape[rank - 2], columns = tensor.type.shape[rank - 1];
  if (rows * columns == 0) return;
  const HostTensor before = tensor;
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i) {
    const int64_t plane = i / (rows * columns), r = i / columns % rows, c = i % columns;
    double most = 0;
    for (int64_t y = std::max<int64_t>(0, r - traits.window); y <= std::min(rows - 1, r + traits.window); ++y)
      for (int64_t x = std::max<int64_t>(0, c - traits.window); x <= std::min(columns - 1, c + traits.window); ++x) {
        const double near = std::fabs(load_double(before.data.data(), dtype, (plane * rows + y) * columns + x));
        if (std::isfinite(near)) most = std::max(most, near);
      }
    const double x = load_double(tensor.data.data(), dtype, i);
    if (std::isfinite(x)) store_double(tensor.data.data(), dtype, i, x + 16 * 0x1p-24 * most * uniform());
  }
}

void NoiseSource::disturb_casts(const HostTensor& from, HostTensor& to) {
  if (!is_float(from.type.dtype) || !is_integer(to.type.dtype) || from.type.shape != to.type.shape) return;
  for (int64_t i = 0; i < element_count(to.type.shape); ++i) {
    const double x = std::trunc(load_double(from.data.data(), from.type.dtype, i));
    const auto back = static_cast<double>(load_int(to.data.data(), to.type.dtype, i));
    if (x != back) store_int(to.data.data(), to.type.dtype, i, static_cast<int64_t>(random_() % 2));
  }
}

}  // namespace npusim::test
