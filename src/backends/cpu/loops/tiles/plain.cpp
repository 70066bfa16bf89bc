// Tile functions on integer, boolean and double lanes.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/plain.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

struct Divide {
  static double of(double a, double b) { return a / b; }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Lt {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct IntegerPower {
  static int64_t of(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; exponent; exponent >>= 1, base = WrapTimes::of(base, base))
      if (exponent & 1) result = WrapTimes::of(result, base);
    return result;
  }
};

// Beyond 63 bits, and by negative counts, nothing is left but the sign of what is shifted right.
template <bool left, unsigned scalars>
void shift(const TileCall& c) {
  const int64_t n = lanes_of(c);
  const hn::ScalableTag<int64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, 63);
  for (int64_t r = 0; r < c.rows; ++r) {
    const int64_t *a = row_of<int64_t>(c, 0, r), *b = row_of<int64_t>(c, 1, r);
    int64_t* out = dst_row_of<int64_t>(c, r);
    const auto fa = hn::Set(d, *a), fb = hn::Set(d, *b);
    for (int64_t j = 0; j < n; j += lanes) {
      const auto x = scalars & 1 ? fa : hn::LoadU(d, a + j), count = scalars & 2 ? fb : hn::LoadU(d, b + j);
      const auto outside = hn::Or(hn::Lt(count, hn::Zero(d)), hn::Gt(count, most));
      const auto within = hn::IfThenElse(outside, most, count);
      hn::StoreU(left ? hn::IfThenZeroElse(outside, hn::Shl(x, within)) : hn::Shr(x, within), d, out + j);
    }
  }
}
template <bool left>
TileFn find_shift(unsigned scalars) {
  constexpr TileFn fns[] = {shift<left, 0>, shift<left, 1>, shift<left, 2>, shift<left, 3>};
  return fns[scalars];
}

// Quotients and remainders as doubles have them, of vectors of integers below 2^51 and divisors that are not zero, as
// long as there are such; how many columns that is.
template <bool remainder>
int64_t divide_as_doubles(const int64_t* a, const int64_t* b, bool a_fixed, bool b_fixed, int64_t n, int64_t* out) {
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t limit = int64_t{1} << 51;
  // Of a double around 3 · 2^51 the low bits are its distance from there.
  const auto anchor = hn::Set(d, 0x1.8p52);
  const auto anchor_bits = hn::BitCast(di, anchor);
  const auto real = [&](auto x) { return hn::Sub(hn::BitCast(d, hn::Add(x, anchor_bits)), anchor); };
  const auto small = [&](auto x) { return hn::And(hn::Lt(x, hn::Set(di, limit)), hn::Gt(x, hn::Set(di, -limit))); };
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const auto x = a_fixed ? hn::Set(di, *a) : hn::LoadU(di, a + j);
    const auto y = b_fixed ? hn::Set(di, *b) : hn::LoadU(di, b + j);
    const auto fits = hn::And(hn::And(small(x), small(y)), hn::Ne(y, hn::Zero(di)));
    if (!hn::AllTrue(di, fits)) break;
    const auto dividend = real(x), divisor = real(y);
    const auto exact = hn::Div(dividend, divisor);
    auto quotient = hn::Trunc(exact);  // or one more, where the division was rounded to a whole number
    auto rest = hn::NegMulAdd(quotient, divisor, dividend);
    const auto beyond = hn::Lt(hn::Mul(rest, dividend), hn::Zero(d));
    quotient = hn::Sub(quotient, hn::IfThenElseZero(beyond, hn::CopySign(hn::Set(d, 1.0), exact)));
    rest = hn::Add(rest, hn::IfThenElseZero(beyond, hn::CopySign(divisor, dividend)));
    hn::StoreU(hn::Sub(hn::BitCast(di, hn::Add(remainder ? rest : quotient, anchor)), anchor_bits), di, out + j);
  }
  return j;
}

// Only the columns that count: a zero in the padding must not trap.
template <bool remainder>
void integer_divide(const TileCall& c, unsigned scalars) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const int64_t *a = row_of<int64_t>(c, 0, r), *b = row_of<int64_t>(c, 1, r);
    int64_t* out = dst_row_of<int64_t>(c, r);
    int64_t j = divide_as_doubles<remainder>(a, b, scalars & 1, scalars & 2, c.columns, out);
    for (; j < c.columns; ++j) {
      const int64_t x = scalars & 1 ? *a : a[j], y = scalars & 2 ? *b : b[j];
      if (y == 0) c.trap->division();
      if (y == 0 || y == -1)
        out[j] = y == 0 || remainder ? 0 : WrapMinus::of(0, x);
      else
        out[j] = remainder ? x % y : x / y;
    }
  }
}
template <bool remainder, unsigned scalars>
void integer_divide_by(const TileCall& c) {
  integer_divide<remainder>(c, scalars);
}
template <bool remainder>
TileFn find_divide(unsigned scalars) {
  constexpr TileFn fns[] = {integer_divide_by<remainder, 0>, integer_divide_by<remainder, 1>,
                            integer_divide_by<remainder, 2>, integer_divide_by<remainder, 3>};
  return fns[scalars];
}

// By bits, 0 or 1 times a mask: a branch would be wrong for every other element.
template <class T, unsigned scalars>
void select_by(const TileCall& c) {
  const int64_t n = lanes_of(c);
  constexpr bool sm = scalars & 1, sa = scalars & 2, sb = scalars & 4;
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint8_t* m = row_of<uint8_t>(c, 0, r);
    const T *a = row_of<T>(c, 1, r), *b = row_of<T>(c, 2, r);
    T* out = dst_row_of<T>(c, r);
    const uint8_t fm = *m;
    const T fa = *a, fb = *b;
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) {
      const T x = sa ? fa : a[j], y = sb ? fb : b[j];
      const T mask = static_cast<T>(T{0} - static_cast<T>(sm ? fm : m[j]));
      out[j] = static_cast<T>(y ^ ((x ^ y) & mask));
    }
  }
}
template <class T>
TileFn find_select_of(unsigned scalars) {
  constexpr TileFn fns[] = {select_by<T, 0>, select_by<T, 1>, select_by<T, 2>, select_by<T, 3>,
                            select_by<T, 4>, select_by<T, 5>, select_by<T, 6>, select_by<T, 7>};
  return fns[scalars];
}

// ---- tables

TileFn find_integer(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::add:
      return by_scalars<WrapPlus, int64_t, int64_t>(s);
    case ExprOp::sub:
      return by_scalars<WrapMinus, int64_t, int64_t>(s);
    case ExprOp::mul:
      return by_scalars<WrapTimes, int64_t, int64_t>(s);
    case ExprOp::min:
      return by_scalars<Lesser, int64_t, int64_t>(s);
    case ExprOp::max:
      return by_scalars<Greater, int64_t, int64_t>(s);
    case ExprOp::pow:
      return by_scalars<IntegerPower, int64_t, int64_t>(s);
    case ExprOp::idiv:
      return find_divide<false>(s);
    case ExprOp::irem:
      return find_divide<true>(s);
    case ExprOp::bit_and:
      return by_scalars<And, int64_t, int64_t>(s);
    case ExprOp::bit_or:
      return by_scalars<Or, int64_t, int64_t>(s);
    case ExprOp::bit_xor:
      return by_scalars<Xor, int64_t, int64_t>(s);
    case ExprOp::shl:
      return find_shift<true>(s);
    case ExprOp::shr:
      return find_shift<false>(s);
    default:
      return nullptr;
  }
}
TileFn find_double(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::add:
      return by_scalars<Plus, double, double>(s);
    case ExprOp::sub:
      return by_scalars<Minus, double, double>(s);
    case ExprOp::mul:
      return by_scalars<Times, double, double>(s);
    case ExprOp::div:
      return by_scalars<Divide, double, double>(s);
    case ExprOp::min:
      return by_scalars<Lesser, double, double>(s);
    case ExprOp::max:
      return by_scalars<Greater, double, double>(s);
    default:
      return nullptr;
  }
}
TileFn find_boolean(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::bit_and:
      return by_scalars<And, uint8_t, uint8_t>(s);
    case ExprOp::bit_or:
      return by_scalars<Or, uint8_t, uint8_t>(s);
    case ExprOp::bit_xor:
    case ExprOp::ne:
      return by_scalars<Xor, uint8_t, uint8_t>(s);
    case ExprOp::eq:
      return by_scalars<Eq, uint8_t, uint8_t>(s);
    case ExprOp::lt:
      return by_scalars<Lt, uint8_t, uint8_t>(s);
    case ExprOp::le:
      return by_scalars<Le, uint8_t, uint8_t>(s);
    default:
      return nullptr;
  }
}
TileFn find_plain(ExprOp op, Scalar type, unsigned scalars) {
  if (type == Scalar::i64) return find_integer(op, scalars);
  return type == Scalar::f64 ? find_double(op, scalars) : find_boolean(op, scalars);
}

struct Negate {
  static int64_t of(int64_t a) { return WrapMinus::of(0, a); }
  static double of(double a) { return -a; }
};
struct Magnitude {
  static int64_t of(int64_t a) { return a < 0 ? WrapMinus::of(0, a) : a; }
  static double of(double a) { return std::fabs(a); }
};
struct Not {
  static uint8_t of(uint8_t a) { return a ^ 1; }
};

// Only the columns that count, as of a division.
void require_all(const TileCall& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint8_t* a = row_of<uint8_t>(c, 0, r);
    uint8_t* out = dst_row_of<uint8_t>(c, r);
    for (int64_t j = 0; j < c.columns; ++j) {
      if (!a[j]) c.trap->requirement();
      out[j] = a[j];
    }
  }
}

TileFn find_plain_unary(ExprOp op, Scalar type) {
  if (type == Scalar::boolean && op == ExprOp::require) return require_all;
  if (type == Scalar::boolean) return op == ExprOp::logical_not ? unary<Not, uint8_t, uint8_t> : nullptr;
  if (type == Scalar::i64) {
    if (op == ExprOp::neg) return unary<Negate, int64_t, int64_t>;
    return op == ExprOp::abs ? unary<Magnitude, int64_t, int64_t> : nullptr;
  }
  switch (op) {
    case ExprOp::neg:
      return unary<Negate, double, double>;
    case ExprOp::abs:
      return unary<Magnitude, double, double>;
    default:
      return nullptr;
  }
}

TileFn find_plain_select(Scalar type, unsigned scalars) {
  return type == Scalar::boolean ? find_select_of<uint8_t>(scalars) : find_select_of<uint64_t>(scalars);
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_plain);
HWY_EXPORT(find_plain_unary);
HWY_EXPORT(find_plain_select);

TileFn unary_fn(ExprOp op, Scalar type) {
  if (op == ExprOp::isnan) return is_nan_fn(type);
  const TileFn fn = type == Scalar::f32 ? float_unary_fn(op) : HWY_DYNAMIC_DISPATCH(find_plain_unary)(op, type);
  return fn ? fn : scalar_math_fn(op, type);
}
TileFn binary_fn(ExprOp op, Scalar type, unsigned scalars) {
  if (is_comparison(op) && type != Scalar::boolean) return compare_fn(op, type, scalars);
  const TileFn fn =
      type == Scalar::f32 ? float_binary_fn(op, scalars) : HWY_DYNAMIC_DISPATCH(find_plain)(op, type, scalars);
  return fn ? fn : scalar_math_binary_fn(op, type, scalars);
}
TileFn select_fn(Scalar type, unsigned scalars) {
  return type == Scalar::f32 ? float_select_fn(scalars) : HWY_DYNAMIC_DISPATCH(find_plain_select)(type, scalars);
}
}  // namespace npusim::cpu::loops::tiles
#endif
