// Rounding errors as random numbers.
#include "random/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/facts/fourier.h"

namespace npusim::test {
namespace {

bool is_rounding(const Kernel& k, const Expr& e) {
  if (e.type < Scalar::f32) return false;
  switch (e.op) {
    case ExprOp::cast: {
      const Scalar from = k.exprs[static_cast<size_t>(e.in[0])].type;
      return e.type == Scalar::f32 && (from == Scalar::i64 || from == Scalar::f64);
    }
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
  const bool constants = std::any_of(k.exprs.begin(), k.exprs.end(), [&](const Expr& e) {
    return e.op == ExprOp::constant && e.type >= Scalar::f32 && e.number != round_through(result, e.number);
  });
  return !same || (constants && result < DType::f32) || (!reads && result != DType::f64);
}

}  // namespace

CallTraits traits_of(const Lowering& lowering) {
  CallTraits traits;
  int roundings = 0, contractions = 0;
  for (const Lowering::Call& call : lowering.calls) {
    const Kernel& k = call.kernel;
    double row = 1;
    for (size_t d = k.space.size() - static_cast<size_t>(k.row_dims); d < k.space.size(); ++d)
      row *= static_cast<double>(k.space[d]);
    for (const Access& access : k.accesses) traits.gathers = traits.gathers || !access.terms.empty();
    for (const Expr& e : k.exprs) {
      traits.casts = traits.casts || (e.op == ExprOp::cast && e.type == Scalar::i64 &&
                                      k.exprs[static_cast<size_t>(e.in[0])].type >= Scalar::f32);
      traits.picks = traits.picks || e.op == ExprOp::order || e.op == ExprOp::min || e.op == ExprOp::max ||
                     ((e.op == ExprOp::reduce || e.op == ExprOp::scan) && e.reduction >= Reduction::min);
      traits.fades = traits.fades || e.op == ExprOp::exp;
      if (!is_rounding(k, e)) continue;
      ++roundings;
      if (e.op != ExprOp::reduce && e.op != ExprOp::scan && !is_fourier(e)) continue;
      traits.sums = true;
      traits.multiplies = traits.multiplies || e.reduction == Reduction::product;
      traits.terms = std::max(traits.terms, row);
    }
    for (const Store& s : k.stores)
      if (s.accumulate && k.exprs[static_cast<size_t>(s.expr)].type >= Scalar::f32) {
        ++roundings;
        traits.sums = true;
        traits.multiplies = traits.multiplies || s.reduction == Reduction::product;
        traits.terms = std::max(traits.terms, static_cast<double>(element_count(k.space)));
      }
    for (const Store& s : k.stores) roundings += narrows(k, k.args[static_cast<size_t>(s.access.arg)].dtype);
    if (!k.contraction) continue;
    traits.contracts = true;
    double products = 1;
    for (const int64_t n : k.contraction->reduce) products *= static_cast<double>(n);
    if (k.contraction->score)
      for (const int64_t n : k.contraction->score->reduce) products *= static_cast<double>(n);
    traits.terms = std::max(traits.terms, products);
    // Winograd's transforms: filters of 3x3, sums of tiles of 6x6.
    const std::vector<int64_t>& reduce = k.contraction->reduce;
    if (k.contraction->kind == ContractionKind::conv && reduce.size() == 3 && reduce[1] == 3 && reduce[2] == 3)
      traits.window = 5;
    traits.sums = true;
    traits.weighs = traits.weighs || k.contraction->kind == ContractionKind::attention || ++contractions == 2;
    ++roundings;
  }
  traits.exact = roundings == 0;
  return traits;
}

// The distance between x and its neighbours in `dtype`, at least that of the smallest normal numbers.
static double step_at(double x, DType dtype) {
  const int digits = dtype == DType::bf16 ? 7 : dtype == DType::f16 ? 10 : dtype == DType::f32 ? 23 : 52;
  const int least = dtype == DType::f16 ? -14 : dtype == DType::f64 ? -1022 : -126;
  return std::ldexp(1.0, std::max(x == 0 ? least : std::ilogb(x), least) - digits);
}

void NoiseSource::disturb(HostTensor& tensor, double steps) {
  if (noise_.plain) return;
  const DType dtype = tensor.type.dtype;
  const DType arithmetic = dtype == DType::f64 ? dtype : DType::f32;
  const DType stored = dtype == DType::f32 && !noise_.apart ? noise_.storage : dtype;
  const double least = dtype == DType::f64 ? 0 : stored == DType::f16 ? 0x1p-14 : 0x1p-126;
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i) {
    const double x = load_double(tensor.data.data(), dtype, i);
    if (std::isnan(x) || std::isinf(x)) continue;
    if (noise_.round && stored != arithmetic) {
      store_double(tensor.data.data(), dtype, i, round_through(stored, x));
      continue;
    }
    // Never so little that rounding undoes it: what stays as it is counts as exact.
    double most = steps * step_at(x, arithmetic);
    if (stored != arithmetic) most = std::max(most, 3 * step_at(x, stored));
    double off = x + most * error();
    // Small numbers may become zero, whose sign is then any; zero itself is exact.
    if (x == 0 || (std::fabs(x) < 4 * least && random_() % 2))
      off = (random_() % 2 != 0) != noise_.opposite ? 0.0 : -0.0;
    // A zero of float16 may be what was too small for it.
    if (x == 0 && dtype == DType::f16 && noise_.opposite) off = 0x1p-24;
    store_double(tensor.data.data(), dtype, i, off);
  }
}

Kernel NoiseSource::disturbed(const Kernel& kernel) {
  Kernel k = kernel;
  if (noise_.plain) return k;
  k.exprs.clear();
  std::vector<int32_t> now(kernel.exprs.size());
  for (size_t i = 0; i < kernel.exprs.size(); ++i) {
    Expr e = kernel.exprs[i];
    for (int n = 0; n < expr_arity(e.op); ++n) {
      int32_t& in = e.in[static_cast<size_t>(n)];
      in = now[static_cast<size_t>(in)];
    }
    k.exprs.push_back(e);
    now[i] = static_cast<int32_t>(k.exprs.size()) - 1;
    if (!is_rounding(kernel, kernel.exprs[i])) continue;
    const double step = e.type == Scalar::f64 ? 0x1p-52 : 0x1p-23;
    k.exprs.push_back({.op = ExprOp::constant, .type = e.type, .number = 1 + 4 * step * error()});
    Expr product{.op = ExprOp::mul, .type = e.type};
    product.in[0] = now[i];
    product.in[1] = now[i] + 1;
    k.exprs.push_back(product);
    now[i] += 2;
  }
  for (Access& access : k.accesses)
    for (IndexTerm& term : access.terms) term.expr = now[static_cast<size_t>(term.expr)];
  for (Store& store : k.stores) {
    store.expr = now[static_cast<size_t>(store.expr)];
    for (IndexTerm& term : store.access.terms) term.expr = now[static_cast<size_t>(term.expr)];
  }
  return k;
}

void NoiseSource::disturb_overflow(HostTensor& result, bool finite, bool overflows) {
  const DType dtype = result.type.dtype;
  if (!is_float(dtype) || (!noise_.opposite && !noise_.overturned && !noise_.overflow)) return;
  for (int64_t i = 0; i < element_count(result.type.shape); ++i) {
    const double x = load_double(result.data.data(), dtype, i);
    if (overflows && noise_.overflow)
      store_double(result.data.data(), dtype, i, *noise_.overflow);
    else if (overflows && noise_.overturned && random_() % 4)
      store_double(result.data.data(), dtype, i, random_() % 2 ? NAN : random_() % 2 ? INFINITY : -INFINITY);
    else if (std::isinf(x) && (finite || overflows))
      store_double(result.data.data(), dtype, i, !noise_.overturned ? NAN : random_() % 2 ? -x : x);
    else if (std::isnan(x) && finite && noise_.overturned)
      store_double(result.data.data(), dtype, i, 0);
  }
}

void NoiseSource::disturb_faded(HostTensor& result, double largest) {
  const DType dtype = result.type.dtype;
  if (dtype != DType::f32 || noise_.plain) return;
  for (int64_t i = 0; i < element_count(result.type.shape); ++i)
    if (const double x = load_double(result.data.data(), dtype, i);
        std::fabs(x) < 0x1p-126 * std::max(largest, 1.0) && random_() % 2)
      store_double(result.data.data(), dtype, i, std::copysign(0, x));
}

void NoiseSource::disturb_lost_weights(HostTensor& result, double largest) {
  const DType dtype = result.type.dtype;
  if (dtype != DType::f32 || noise_.plain || !std::isfinite(largest)) return;
  for (int64_t i = 0; i < element_count(result.type.shape); ++i)
    if (const double x = load_double(result.data.data(), dtype, i); std::isfinite(x))
      store_double(result.data.data(), dtype, i, x + 0x1p-126 * largest * error());
}

void NoiseSource::see_other(HostTensor& tensor, bool narrow) {
  const DType dtype = tensor.type.dtype;
  if (narrow && dtype == DType::f32 && noise_.storage != DType::f32) return round_to(tensor, noise_.storage);
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i)
    if (const double x = load_double(tensor.data.data(), dtype, i); std::isfinite(x) && x != 0)
      store_double(tensor.data.data(), dtype, i, x + step_at(x, dtype) * error());
}

void NoiseSource::disturb_operand(HostTensor& tensor, const CallTraits& traits) {
  if (!is_float(tensor.type.dtype)) return;
  // A weight of attention may be as small as to vanish beside an infinity.
  for (int64_t i = 0; traits.weighs && noise_.opposite && i < element_count(tensor.type.shape); ++i)
    if (std::isinf(load_double(tensor.data.data(), tensor.type.dtype, i)))
      store_double(tensor.data.data(), tensor.type.dtype, i, NAN);
  if (!noise_.round || !noise_.opposite) disturb(tensor, 2 + std::sqrt(traits.terms));
}

void NoiseSource::disturb_result(HostTensor& tensor, const CallTraits& traits) {
  if (!is_float(tensor.type.dtype)) return;
  const DType dtype = tensor.type.dtype;
  // What is too large for float16 is an infinity only where it is stored.
  for (int64_t i = 0; dtype == DType::f16 && i < element_count(tensor.type.shape); ++i)
    if (const double x = load_double(tensor.data.data(), dtype, i); std::isinf(x) && noise_.opposite)
      store_double(tensor.data.data(), dtype, i, std::copysign(60000.0, x));
  for (int64_t i = 0; traits.picks && !noise_.plain && i < element_count(tensor.type.shape); ++i)
    if (load_double(tensor.data.data(), dtype, i) == 0)
      store_double(tensor.data.data(), dtype, i, error() < 0 ? -0.0 : 0.0);
  // A gathered weight is an activation, which 16 bits may hold.
  const bool stored = traits.gathers && dtype == DType::f32 && noise_.storage != DType::f32;
  // Exact results may be stored in 16 bits, or stay in a kernel.
  if (traits.exact && !stored && !(noise_.round && random_() % 2)) return;
  disturb(tensor, 4 + std::sqrt(traits.terms) / 2);
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
