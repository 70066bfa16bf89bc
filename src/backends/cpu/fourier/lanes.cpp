// Butterflies on vectors, compiled once per instruction set.
#include "backends/cpu/fourier/lanes.h"

#include <algorithm>
#include <array>

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/fourier/lanes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::fourier::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using DT = hn::ScalableTag<T>;
template <class T>
constexpr int64_t lane_count = static_cast<int64_t>(hn::MaxLanes(DT<T>()));

template <class V>
struct Complex {
  V re, im;
};
template <class V>
HWY_INLINE Complex<V> operator+(Complex<V> a, Complex<V> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class V>
HWY_INLINE Complex<V> operator-(Complex<V> a, Complex<V> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class V>
HWY_INLINE Complex<V> operator*(Complex<V> a, Complex<V> b) {
  return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)), hn::MulAdd(a.re, b.im, hn::Mul(a.im, b.re))};
}
template <class V>
HWY_INLINE Complex<V> scaled(Complex<V> a, V by) {
  return {hn::Mul(a.re, by), hn::Mul(a.im, by)};
}
template <class V>
HWY_INLINE Complex<V> conjugate(Complex<V> a) {
  return {a.re, hn::Neg(a.im)};
}
template <class V>
HWY_INLINE Complex<V> minus_i(Complex<V> a) {  // −i a
  return {a.im, hn::Neg(a.re)};
}
// a − i b, a + i b
template <class V>
HWY_INLINE Complex<V> sub_i(Complex<V> a, Complex<V> b) {
  return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
}
template <class V>
HWY_INLINE Complex<V> add_i(Complex<V> a, Complex<V> b) {
  return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
}

template <class V>
HWY_INLINE void four(Complex<V>& a, Complex<V>& b, Complex<V>& c, Complex<V>& d) {
  const Complex<V> t0 = a + c, t1 = a - c, t2 = b + d, t3 = b - d;
  a = t0 + t2, b = sub_i(t1, t3), c = t0 - t2, d = add_i(t1, t3);
}

// x[j] = Σ x[k] e^(−2πi j k / radix)
template <int radix, class D, class V>
HWY_INLINE void butterfly(D d, Complex<V>* x) {
  using T = hn::TFromD<D>;
  if constexpr (radix == 2) {
    const Complex<V> t = x[0] - x[1];
    x[0] = x[0] + x[1], x[1] = t;
  } else if constexpr (radix == 3) {
    const Complex<V> sum = x[1] + x[2],
                     rotated = scaled(x[1] - x[2], hn::Set(d, static_cast<T>(0.86602540378443864676)));
    const V half = hn::Set(d, static_cast<T>(0.5));
    const Complex<V> middle{hn::NegMulAdd(sum.re, half, x[0].re), hn::NegMulAdd(sum.im, half, x[0].im)};
    x[0] = x[0] + sum, x[1] = sub_i(middle, rotated), x[2] = add_i(middle, rotated);
  } else if constexpr (radix == 4) {
    four(x[0], x[1], x[2], x[3]);
  } else if constexpr (radix == 5) {
    const V c1 = hn::Set(d, static_cast<T>(0.30901699437494742410)),
            c2 = hn::Set(d, static_cast<T>(-0.80901699437494742410));
    const V s1 = hn::Set(d, static_cast<T>(0.95105651629515357212)),
            s2 = hn::Set(d, static_cast<T>(0.58778525229247312917));
    const Complex<V> u1 = x[1] + x[4], u2 = x[2] + x[3], v1 = x[1] - x[4], v2 = x[2] - x[3];
    const auto even = [&](V p, V q) {
      return Complex<V>{hn::MulAdd(u1.re, p, hn::MulAdd(u2.re, q, x[0].re)),
                        hn::MulAdd(u1.im, p, hn::MulAdd(u2.im, q, x[0].im))};
    };
    const Complex<V> a1 = even(c1, c2), a2 = even(c2, c1);
    const Complex<V> b1{hn::MulAdd(v1.re, s1, hn::Mul(v2.re, s2)), hn::MulAdd(v1.im, s1, hn::Mul(v2.im, s2))};
    const Complex<V> b2{hn::MulSub(v1.re, s2, hn::Mul(v2.re, s1)), hn::MulSub(v1.im, s2, hn::Mul(v2.im, s1))};
    x[0] = x[0] + u1 + u2;
    x[1] = sub_i(a1, b1), x[4] = add_i(a1, b1), x[2] = sub_i(a2, b2), x[3] = add_i(a2, b2);
  } else {
    static_assert(radix == 8);
    const V root = hn::Set(d, static_cast<T>(0.70710678118654752440));
    four(x[0], x[2], x[4], x[6]);
    four(x[1], x[3], x[5], x[7]);
    const Complex<V> o1{hn::Mul(hn::Add(x[3].re, x[3].im), root), hn::Mul(hn::Sub(x[3].im, x[3].re), root)};
    const Complex<V> o2 = minus_i(x[5]);
    const Complex<V> o3{hn::Mul(hn::Sub(x[7].im, x[7].re), root), hn::Neg(hn::Mul(hn::Add(x[7].re, x[7].im), root))};
    const Complex<V> e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6], o0 = x[1];
    x[0] = e0 + o0, x[1] = e1 + o1, x[2] = e2 + o2, x[3] = e3 + o3;
    x[4] = e0 - o0, x[5] = e1 - o1, x[6] = e2 - o2, x[7] = e3 - o3;
  }
}

template <class T>
HWY_INLINE Complex<hn::Vec<DT<T>>> load(const Planar<T>& from, int64_t j) {
  const DT<T> d;
  return {hn::LoadU(d, from.re + j * from.ld), hn::LoadU(d, from.im + j * from.ld)};
}
template <class T>
HWY_INLINE void store(const Planar<T>& to, int64_t j, Complex<hn::Vec<DT<T>>> x) {
  const DT<T> d;
  hn::StoreU(x.re, d, to.re + j * to.ld);
  hn::StoreU(x.im, d, to.im + j * to.ld);
}

template <int radix, class T>
void run_stage(const Stage<T>& stage, const Planar<T>& from, const Planar<T>& to) {
  const DT<T> d;
  using V = hn::Vec<DT<T>>;
  const int64_t blocks = stage.blocks, stride = stage.stride;
  for (int64_t p = 0; p < blocks; ++p) {
    const T* twiddles = stage.twiddles.data() + p * (radix - 1) * 2;
    for (int64_t q = 0; q < stride; ++q) {
      Complex<V> x[radix];
      for (int k = 0; k < radix; ++k) x[k] = load(from, q + stride * (p + blocks * k));
      butterfly<radix>(d, x);
      const int64_t first = q + stride * radix * p;
      store(to, first, x[0]);
      if (p == 0) {
        for (int j = 1; j < radix; ++j) store(to, first + stride * j, x[j]);
        continue;
      }
      for (int j = 1; j < radix; ++j)
        store(to, first + stride * j,
              x[j] * Complex<V>{hn::Set(d, twiddles[2 * (j - 1)]), hn::Set(d, twiddles[2 * (j - 1) + 1])});
    }
  }
}

// An odd radix by its definition: sums of pairs with the cosines, differences with the sines.
template <class T>
void run_any_stage(const Stage<T>& stage, const Planar<T>& from, const Planar<T>& to) {
  const DT<T> d;
  using V = hn::Vec<DT<T>>;
  const int64_t blocks = stage.blocks, stride = stage.stride, radix = stage.radix, half = radix / 2;
  Complex<V> sums[largest_radix / 2 + 1], differences[largest_radix / 2 + 1];
  for (int64_t p = 0; p < blocks; ++p) {
    const T* twiddles = stage.twiddles.data() + p * (radix - 1) * 2;
    const auto rotated = [&](int64_t j, Complex<V> x) {
      return x * Complex<V>{hn::Set(d, twiddles[2 * (j - 1)]), hn::Set(d, twiddles[2 * (j - 1) + 1])};
    };
    for (int64_t q = 0; q < stride; ++q) {
      const Complex<V> first = load(from, q + stride * p);
      Complex<V> all = first;
      for (int64_t k = 1; k <= half; ++k) {
        const Complex<V> a = load(from, q + stride * (p + blocks * k));
        const Complex<V> b = load(from, q + stride * (p + blocks * (radix - k)));
        sums[k] = a + b, differences[k] = a - b;
        all = all + sums[k];
      }
      const int64_t at = q + stride * radix * p;
      store(to, at, all);
      for (int64_t j = 1; j <= half; ++j) {
        Complex<V> even = first, odd{hn::Zero(d), hn::Zero(d)};
        for (int64_t k = 1, root = j; k <= half; ++k, root = root + j < radix ? root + j : root + j - radix) {
          const V cos = hn::Set(d, stage.roots[static_cast<size_t>(2 * root)]);
          const V sin = hn::Set(d, stage.roots[static_cast<size_t>(2 * root + 1)]);
          even = {hn::MulAdd(sums[k].re, cos, even.re), hn::MulAdd(sums[k].im, cos, even.im)};
          odd = {hn::MulAdd(differences[k].re, sin, odd.re), hn::MulAdd(differences[k].im, sin, odd.im)};
        }
        store(to, at + stride * j, rotated(j, sub_i(even, odd)));
        store(to, at + stride * (radix - j), rotated(radix - j, add_i(even, odd)));
      }
    }
  }
}

template <class T>
void run(const Stage<T>& stage, const Planar<T>& from, const Planar<T>& to) {
  switch (stage.radix) {
    case 2:
      return run_stage<2>(stage, from, to);
    case 3:
      return run_stage<3>(stage, from, to);
    case 4:
      return run_stage<4>(stage, from, to);
    case 5:
      return run_stage<5>(stage, from, to);
    case 8:
      return run_stage<8>(stage, from, to);
    default:
      return run_any_stage(stage, from, to);
  }
}

// Each pass reads another memory than it writes, but one that is the only one: it reads all that it writes before.
template <class T>
HWY_INLINE void transform_columns(const std::vector<Stage<T>>& stages, Planar<T> from, Planar<T> to, int64_t n,
                                  int64_t columns, T* scratch) {
  constexpr int64_t lanes = lane_count<T>;
  const int64_t room = n * lanes;
  const Planar<T> one{scratch, scratch + room, lanes}, other{scratch + 2 * room, scratch + 3 * room, lanes};
  for (int64_t c = 0; c < columns; c += lanes) {
    const Planar<T> begin{from.re + c, from.im + c, from.ld}, end{to.re + c, to.im + c, to.ld};
    Planar<T> now = begin;
    for (size_t left = stages.size(); left-- > 0;) {
      const bool first = left + 1 == stages.size();
      const Planar<T> next = left == 0 ? end : left % 2 == 1 ? one : other;
      run(stages[stages.size() - 1 - left], first ? begin : now, next);
      now = next;
    }
  }
}

// Of vectors a[g] with a block of 16 bytes of each of as many results: result b has their b-th blocks, one behind the
// other.
template <class D, class V>
HWY_INLINE void exchange_blocks(D d, V* a) {
  constexpr size_t blocks = hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) / 16;
  if constexpr (blocks == 2) {
    const V low = hn::ConcatLowerLower(d, a[1], a[0]);
    a[1] = hn::ConcatUpperUpper(d, a[1], a[0]), a[0] = low;
  } else if constexpr (blocks == 4) {
    const V low = hn::ConcatLowerLower(d, a[2], a[0]), other = hn::ConcatLowerLower(d, a[3], a[1]);
    const V high = hn::ConcatUpperUpper(d, a[2], a[0]), another = hn::ConcatUpperUpper(d, a[3], a[1]);
    a[0] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(other), low);
    a[1] = hn::OddEvenBlocks(other, hn::SwapAdjacentBlocks(low));
    a[2] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(another), high);
    a[3] = hn::OddEvenBlocks(another, hn::SwapAdjacentBlocks(high));
  }
}

// Within each block: element i of the g-th of a block's vectors becomes element g of the i-th.
template <class D, class V>
HWY_INLINE void exchange_elements(D d, V* a) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const V low = hn::InterleaveLower(d, a[0], a[1]);
    a[1] = hn::InterleaveUpper(d, a[0], a[1]), a[0] = low;
  } else {
    const hn::Repartition<double, D> wide;
    const auto low = hn::BitCast(wide, hn::InterleaveLower(d, a[0], a[1]));
    const auto high = hn::BitCast(wide, hn::InterleaveUpper(d, a[0], a[1]));
    const auto low2 = hn::BitCast(wide, hn::InterleaveLower(d, a[2], a[3]));
    const auto high2 = hn::BitCast(wide, hn::InterleaveUpper(d, a[2], a[3]));
    a[0] = hn::BitCast(d, hn::InterleaveLower(wide, low, low2)),
    a[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low, low2));
    a[2] = hn::BitCast(d, hn::InterleaveLower(wide, high, high2)),
    a[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high, high2));
  }
}

// A square of as many rows as a vector has lanes.
template <class T>
HWY_INLINE void transpose_square(const T* from, int64_t from_ld, T* to, int64_t to_ld, hn::Vec<DT<T>> by) {
  const DT<T> d;
  constexpr int64_t side = lane_count<T>, block = 16 / sizeof(T), blocks = side / block;
  hn::Vec<DT<T>> a[block][blocks];  // [row within a block][block]
#pragma GCC unroll 16
  for (int64_t g = 0; g < blocks; ++g) {
    hn::Vec<DT<T>> rows[block];
#pragma GCC unroll 4
    for (int64_t i = 0; i < block; ++i) rows[i] = hn::Mul(hn::LoadU(d, from + (g * block + i) * from_ld), by);
    exchange_elements(d, rows);
#pragma GCC unroll 4
    for (int64_t i = 0; i < block; ++i) a[i][g] = rows[i];
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < block; ++i) {
    exchange_blocks(d, a[i]);
#pragma GCC unroll 4
    for (int64_t b = 0; b < blocks; ++b) hn::StoreU(a[i][b], d, to + (b * block + i) * to_ld);
  }
}

template <class T>
HWY_INLINE void transposed(const T* from, int64_t from_ld, int64_t rows, int64_t columns, T* to, int64_t to_ld,
                           T scale) {
  constexpr int64_t side = lane_count<T>;
  const auto by = hn::Set(DT<T>(), scale);
  const int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;
  for (int64_t r = 0; r < whole_rows; r += side)
    for (int64_t c = 0; c < whole_columns; c += side)
      transpose_square(from + r * from_ld + c, from_ld, to + c * to_ld + r, to_ld, by);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_ld + r] = scale * from[r * from_ld + c];
}

template <class T>
HWY_INLINE void rotated(Planar<T> z, int64_t n, int64_t columns, const T* cos, const T* sin, bool columns_differ) {
  const DT<T> d;
  using V = hn::Vec<DT<T>>;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0; c < columns; c += lane_count<T>) {
      const Planar<T> at{z.re + c, z.im + c, z.ld};
      const Complex<V> by = columns_differ
                                ? Complex<V>{hn::LoadU(d, cos + j * columns + c), hn::LoadU(d, sin + j * columns + c)}
                                : Complex<V>{hn::Set(d, cos[j]), hn::Set(d, sin[j])};
      store(at, j, load(at, j) * by);
    }
}

// Bins k and m − k of a spectrum from what the halves gave, a and the conjugate of b.
template <class D, class V>
HWY_INLINE void to_bins(D d, Complex<V>& a, Complex<V>& b, Complex<V> twiddle) {
  const V half = hn::Set(d, static_cast<hn::TFromD<D>>(0.5));
  const Complex<V> even = scaled(a + conjugate(b), half), odd = twiddle * minus_i(scaled(a - conjugate(b), half));
  a = even + odd, b = conjugate(even - odd);
}
// The inverse, times two.
template <class D, class V>
HWY_INLINE void from_bins(D, Complex<V>& a, Complex<V>& b, Complex<V> twiddle) {
  const Complex<V> even = a + conjugate(b), odd = (a - conjugate(b)) * conjugate(twiddle);
  a = add_i(even, odd), b = conjugate(sub_i(even, odd));
}

template <bool back, class D, class V>
HWY_INLINE void pair(D d, Complex<V>& a, Complex<V>& b, Complex<V> twiddle) {
  if constexpr (back)
    from_bins(d, a, b, twiddle);
  else
    to_bins(d, a, b, twiddle);
}

template <bool back, class T>
HWY_INLINE void halves_of_columns(Planar<T> z, int64_t m, const T* cos, const T* sin) {
  const DT<T> d;
  using V = hn::Vec<DT<T>>;
  if (!back) store(z, m, load(z, 0));
  for (int64_t k = 0; 2 * k <= m; ++k) {
    Complex<V> a = load(z, k), b = load(z, m - k);
    if (k == 0) a.im = back ? hn::Zero(d) : a.im, b.im = back ? hn::Zero(d) : b.im;
    pair<back>(d, a, b, {hn::Set(d, cos[k]), hn::Set(d, sin[k])});
    store(z, k, a);
    if (2 * k != m) store(z, m - k, b);
  }
}

template <bool back, class T>
HWY_INLINE void halves_of_row(Planar<T> z, int64_t m, const T* cos, const T* sin) {
  const DT<T> d;
  const hn::CappedTag<T, 1> one;
  using V = hn::Vec<DT<T>>;
  using V1 = hn::Vec<decltype(one)>;
  constexpr int64_t lanes = lane_count<T>;
  if (!back) z.re[m] = z.re[0], z.im[m] = z.im[0];
  if (back) z.im[0] = z.im[m] = 0;
  const auto single = [&](int64_t k) {
    Complex<V1> a{hn::Set(one, z.re[k]), hn::Set(one, z.im[k])},
        b{hn::Set(one, z.re[m - k]), hn::Set(one, z.im[m - k])};
    pair<back>(one, a, b, {hn::Set(one, cos[k]), hn::Set(one, sin[k])});
    z.re[k] = hn::GetLane(a.re), z.im[k] = hn::GetLane(a.im);
    if (2 * k != m) z.re[m - k] = hn::GetLane(b.re), z.im[m - k] = hn::GetLane(b.im);
  };
  single(0);
  int64_t k = 1;
  for (; k + lanes <= m - k - lanes + 1; k += lanes) {
    const int64_t other = m - k - lanes + 1;
    Complex<V> a{hn::LoadU(d, z.re + k), hn::LoadU(d, z.im + k)};
    Complex<V> b{hn::Reverse(d, hn::LoadU(d, z.re + other)), hn::Reverse(d, hn::LoadU(d, z.im + other))};
    pair<back>(d, a, b, {hn::LoadU(d, cos + k), hn::LoadU(d, sin + k)});
    hn::StoreU(a.re, d, z.re + k), hn::StoreU(a.im, d, z.im + k);
    hn::StoreU(hn::Reverse(d, b.re), d, z.re + other), hn::StoreU(hn::Reverse(d, b.im), d, z.im + other);
  }
  for (; 2 * k <= m; ++k) single(k);
}

template <class T>
HWY_INLINE void split(const T* pairs, int64_t count, T* re, T* im) {
  const DT<T> d;
  int64_t i = 0;
  for (; i + lane_count<T> <= count; i += lane_count<T>) {
    hn::Vec<DT<T>> a, b;
    hn::LoadInterleaved2(d, pairs + 2 * i, a, b);
    hn::StoreU(a, d, re + i), hn::StoreU(b, d, im + i);
  }
  for (; i < count; ++i) re[i] = pairs[2 * i], im[i] = pairs[2 * i + 1];
}
template <class T>
HWY_INLINE void join(const T* re, const T* im, int64_t count, T scale, T* pairs) {
  const DT<T> d;
  const auto by = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lane_count<T> <= count; i += lane_count<T>)
    hn::StoreInterleaved2(hn::Mul(hn::LoadU(d, re + i), by), hn::Mul(hn::LoadU(d, im + i), by), d, pairs + 2 * i);
  for (; i < count; ++i) pairs[2 * i] = scale * re[i], pairs[2 * i + 1] = scale * im[i];
}

template <class T>
constexpr LaneFunctions<T> functions{
    lane_count<T>,
    [](const std::vector<Stage<T>>& stages, Planar<T> from, Planar<T> to, int64_t n, int64_t columns, T* scratch) {
      transform_columns(stages, from, to, n, columns, scratch);
    },
    [](const T* from, int64_t from_ld, int64_t rows, int64_t columns, T* to, int64_t to_ld, T scale) {
      transposed(from, from_ld, rows, columns, to, to_ld, scale);
    },
    [](Planar<T> z, int64_t n, int64_t columns, const T* cos, const T* sin, bool columns_differ) {
      rotated(z, n, columns, cos, sin, columns_differ);
    },
    [](Planar<T> z, int64_t m, const T* cos, const T* sin, bool one_row) {
      one_row ? halves_of_row<false>(z, m, cos, sin) : halves_of_columns<false>(z, m, cos, sin);
    },
    [](Planar<T> z, int64_t m, const T* cos, const T* sin, bool one_row) {
      one_row ? halves_of_row<true>(z, m, cos, sin) : halves_of_columns<true>(z, m, cos, sin);
    },
    [](const T* pairs, int64_t count, T* re, T* im) { split(pairs, count, re, im); },
    [](const T* re, const T* im, int64_t count, T scale, T* pairs) { join(re, im, count, scale, pairs); },
};

const LaneFunctions<float>* of_float() { return &functions<float>; }
const LaneFunctions<double>* of_double() { return &functions<double>; }

}  // namespace npusim::cpu::fourier::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::fourier {
HWY_EXPORT(of_float);
HWY_EXPORT(of_double);

template <>
const LaneFunctions<float>& lane_functions<float>() {
  return *HWY_DYNAMIC_DISPATCH(of_float)();
}
template <>
const LaneFunctions<double>& lane_functions<double>() {
  return *HWY_DYNAMIC_DISPATCH(of_double)();
}

}  // namespace npusim::cpu::fourier
#endif
