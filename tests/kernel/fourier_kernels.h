// Kernels that transform rows, drawn at random: dtypes, lengths, strides, which bins are there and which are stored.
#pragma once
#include <cmath>

#include "kernel/order_kernels.h"

namespace npusim::test {

enum class FourierKind { complex, real, signal };

struct FourierCase {
  Kernel kernel;
  std::vector<HostTensor> memory;  // of its arguments
};

struct FourierSpec {
  DType dtype = DType::f32;
  FourierKind kind = FourierKind::complex;
  Shape rows;
  int64_t length = 8;
  int64_t given = 8, kept = 8;  // elements of a row that are there, and that are stored
  double scale = 1;
  bool re = true, im = true;  // which parts are stored
  bool columns = false;       // the row is the first dimension of memory
  int64_t around = 0;         // elements between rows that nobody touches
};

inline Kernel fourier_kernel(const FourierSpec& spec) {
  Shape space = spec.rows;
  space.push_back(spec.length);
  const auto last = static_cast<int>(spec.rows.size());
  KernelBuilder k(space, 1);
  const auto side = [&](int64_t count, bool from) {
    Shape shape = spec.rows;
    shape.insert(spec.columns ? shape.begin() : shape.end(), count);
    shape.back() += spec.around;
    const TensorType type{spec.dtype, shape};
    return from ? k.input(type) : k.output(type);
  };
  std::vector<Coord> at;
  for (int d = 0; d < last; ++d) at.emplace_back(k.dim(d));
  at.insert(spec.columns ? at.begin() : at.end(), Coord(k.dim(last)));
  const int re = side(spec.given, true), im = spec.kind == FourierKind::real ? -1 : side(spec.given, true);
  const Ex x = k.load(re, at), y = im >= 0 ? k.load(im, at) : literal(x, 0.0);
  const auto store = [&](ExprOp part) {
    const int to = side(spec.kept, false);
    const Ex z = k.fourier(part, x, y);
    k.store(to, at, spec.scale == 1 ? z : z * spec.scale);
  };
  if (spec.kind == FourierKind::signal) {
    store(ExprOp::fourier_signal);
  } else {
    if (spec.re) store(ExprOp::fourier_re);
    if (spec.im) store(ExprOp::fourier_im);
  }
  Kernel kernel = k.finish("fourier");
  // Elements around the rows are not a row's: a guard only where it is shorter than its length.
  const auto limit = [&](Access& a, int64_t count) {
    for (Guard& g : a.guards) g.limit = count;
    if (a.guards.empty() && count < spec.length) {
      Guard g{std::vector<int64_t>(space.size(), 0), 0, count, a.strides.back()};
      g.coeffs.back() = 1, a.strides.back() = 0;
      a.guards = {g};
    }
  };
  for (Access& a : kernel.accesses) limit(a, spec.given);
  for (Store& s : kernel.stores) limit(s.access, spec.kept);
  return kernel;
}

inline FourierCase fourier_case(Draws& d, const FourierSpec& spec) {
  FourierCase c{fourier_kernel(spec), {}};
  for (const KernelArg& arg : c.kernel.args) {
    c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
    for (int64_t i = 0; i < arg.elements; ++i)
      store_double(c.memory.back().data.data(), arg.dtype, i, std::normal_distribution<double>(0.1, 1)(d.random));
  }
  return c;
}

inline FourierSpec draw_fourier(Draws& d, int64_t length) {
  FourierSpec s;
  constexpr DType dtypes[] = {DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
  s.dtype = dtypes[d.whole(0, 4)];
  s.kind = static_cast<FourierKind>(d.whole(0, 2));
  s.length = length;
  for (int64_t n = d.whole(0, 2); n > 0; --n) s.rows.push_back(d.chance(0.3) ? d.whole(8, 20) : d.whole(1, 4));
  const int64_t half = length / 2 + 1;
  // Of one element the imaginary part is 0: no error is relative to it.
  s.given = d.chance(0.2) ? d.whole(2, length) : s.kind == FourierKind::signal ? half : length;
  s.kept = d.chance(0.2) ? d.whole(1, length) : s.kind == FourierKind::real ? half : length;
  if (std::max(s.given, s.kept) < half) s.kept = half;  // half a row, at least, is in memory
  s.scale = d.chance(0.5) ? 1 : -0.3;
  if (d.chance(0.1)) (d.chance(0.5) ? s.re : s.im) = false;
  s.columns = d.chance(0.3), s.around = d.chance(0.2) ? 3 : 0;
  return s;
}

// How far what two memories hold is apart, relative to the first.
inline double far(const HostTensor& exact, const HostTensor& found) {
  double off = 0, all = 0;
  for (int64_t i = 0; i < element_count(exact.type.shape); ++i) {
    const double x = load_double(exact.data.data(), exact.type.dtype, i);
    const double y = load_double(found.data.data(), found.type.dtype, i);
    off += (x - y) * (x - y), all += x * x;
  }
  return std::sqrt(off / std::max(all, 1e-60));
}

inline double bound_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-14;
    case DType::f32:
      return 1e-6;
    case DType::f16:
      return 2e-3;
    default:
      return 1e-2;
  }
}

}  // namespace npusim::test
