// Tile functions on integers in lanes of 8, 16 and 32 bits.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/integer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backends/cpu/loops/tiles/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

// Where the lanes of operands wrap, as numbers without a sign of 32 bits or fewer.
using Bits = uint32_t;

struct Add {
  static Bits of(Bits a, Bits b) { return a + b; }
};
struct Subtract {
  static Bits of(Bits a, Bits b) { return a - b; }
};
struct Multiply {
  static Bits of(Bits a, Bits b) { return a * b; }
};
struct And {
  static Bits of(Bits a, Bits b) { return a & b; }
};
struct Or {
  static Bits of(Bits a, Bits b) { return a | b; }
};
struct Xor {
  static Bits of(Bits a, Bits b) { return a ^ b; }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Most {
  template <class T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool of(T a, T b) {
    return a != b;
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
// By a count that is none of a bit, nothing is left but the sign of what is shifted right.
struct ShiftLeft {
  template <class T>
  static T of(T a, T count) {
    constexpr Bits bits = 8 * sizeof(T);
    const auto by = static_cast<Bits>(count);
    return static_cast<T>(by < bits ? static_cast<Bits>(a) << (by % bits) : 0);
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, T count) {
    constexpr Bits bits = 8 * sizeof(T);
    const auto by = static_cast<Bits>(count);
    const T most = static_cast<T>(a >> (bits - 1));
    return by < bits ? static_cast<T>(a >> (by % bits)) : std::is_signed_v<T> ? most : T{0};
  }
};
struct Negate {
  template <class T>
  static T of(T a) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(U{0} - static_cast<U>(a)));
  }
};
struct Magnitude {
  template <class T>
  static T of(T a) {
    return a < 0 ? static_cast<T>(0 - static_cast<Bits>(a)) : a;
  }
};
struct Same {
  template <class T>
  static T of(T a) {
    return a;
  }
};
struct Truth {
  template <class T>
  static bool of(T a) {
    return a != 0;
  }
};
template <class Narrow>
struct Wrap {
  template <class T>
  static T of(T a) {
    return static_cast<T>(static_cast<Narrow>(a));
  }
};

template <class T, unsigned scalars>
void choose(const TileCall& c) {
  using U = std::make_unsigned_t<T>;
  const int64_t n = lanes_of(c);
  constexpr bool sm = scalars & 1, sa = scalars & 2, sb = scalars & 4;
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint8_t* m = row_of<uint8_t>(c, 0, r);
    const U *a = row_of<U>(c, 1, r), *b = row_of<U>(c, 2, r);
    U* out = dst_row_of<U>(c, r);
    const uint8_t fm = *m;
    const U fa = *a, fb = *b;
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) {
      const U x = sa ? fa : a[j], y = sb ? fb : b[j];
      const U mask = static_cast<U>(U{0} - static_cast<U>(sm ? fm : m[j]));
      out[j] = static_cast<U>(y ^ ((x ^ y) & mask));
    }
  }
}
template <class T>
TileFn choose_by(unsigned scalars) {
  constexpr TileFn fns[] = {choose<T, 0>, choose<T, 1>, choose<T, 2>, choose<T, 3>,
                            choose<T, 4>, choose<T, 5>, choose<T, 6>, choose<T, 7>};
  return fns[scalars];
}

// ---- tables

template <class T>
TileFn find_binary(ExprOp op, unsigned s) {
  switch (op) {
    case ExprOp::add:
      return by_scalars<Add, T, T>(s);
    case ExprOp::sub:
      return by_scalars<Subtract, T, T>(s);
    case ExprOp::mul:
      return by_scalars<Multiply, T, T>(s);
    case ExprOp::bit_and:
      return by_scalars<And, T, T>(s);
    case ExprOp::bit_or:
      return by_scalars<Or, T, T>(s);
    case ExprOp::bit_xor:
      return by_scalars<Xor, T, T>(s);
    case ExprOp::min:
      return by_scalars<Least, T, T>(s);
    case ExprOp::max:
      return by_scalars<Most, T, T>(s);
    case ExprOp::shl:
      return by_scalars<ShiftLeft, T, T>(s);
    case ExprOp::shr:
      return by_scalars<ShiftRight, T, T>(s);
    case ExprOp::eq:
      return by_scalars<Eq, T, uint8_t>(s);
    case ExprOp::ne:
      return by_scalars<Ne, T, uint8_t>(s);
    case ExprOp::lt:
      return by_scalars<Lt, T, uint8_t>(s);
    case ExprOp::le:
      return by_scalars<Le, T, uint8_t>(s);
    default:
      return nullptr;
  }
}
template <class T>
TileFn find_wrap(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return unary<Wrap<uint8_t>, T, T>;
    case DType::i8:
      return unary<Wrap<int8_t>, T, T>;
    case DType::i16:
      return unary<Wrap<int16_t>, T, T>;
    default:
      return nullptr;
  }
}
template <class T>
TileFn find_of(const Expr& x, Scalar operand, unsigned scalars) {
  switch (x.op) {
    case ExprOp::neg:
      return unary<Negate, T, T>;
    case ExprOp::abs:
      return unary<Magnitude, T, T>;
    case ExprOp::round_to:
      return find_wrap<T>(x.dtype);
    case ExprOp::select:
      return choose_by<T>(scalars);
    case ExprOp::cast:
      if (operand == Scalar::boolean) return unary<Same, uint8_t, T>;
      if (x.type == Scalar::boolean) return unary<Truth, T, uint8_t>;
      return x.type == Scalar::f32 ? unary<Same, T, float> : unary<Same, T, double>;
    default:
      return find_binary<T>(x.op, scalars);
  }
}
TileFn find_integer_fn(const Expr& x, Scalar operand, IntLane lane, unsigned scalars) {
  switch (lane) {
    case IntLane::u8:
      return find_of<uint8_t>(x, operand, scalars);
    case IntLane::i8:
      return find_of<int8_t>(x, operand, scalars);
    case IntLane::i16:
      return find_of<int16_t>(x, operand, scalars);
    case IntLane::i32:
      return find_of<int32_t>(x, operand, scalars);
    default:
      return nullptr;
  }
}

template <class T>
TileFn find_load(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return sizeof(T) == 1 ? nullptr : unary<Same, uint8_t, T>;
    case DType::i8:
      return sizeof(T) == 1 ? nullptr : unary<Same, int8_t, T>;
    case DType::i16:
      return sizeof(T) == 2 ? nullptr : unary<Same, int16_t, T>;
    case DType::i32:
      return sizeof(T) == 4 ? nullptr : unary<Same, int32_t, T>;
    default:
      return unary<Same, int64_t, T>;
  }
}
TileFn find_integer_load(DType dtype, IntLane lane) {
  if (lane == IntLane::i16) return find_load<int16_t>(dtype);
  return lane == IntLane::i32 ? find_load<int32_t>(dtype) : find_load<uint8_t>(dtype);
}
template <class T>
TileFn find_store(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return sizeof(T) == 1 ? nullptr : unary<Same, T, uint8_t>;
    case 2:
      return sizeof(T) == 2 ? nullptr : unary<Same, T, uint16_t>;
    case 4:
      return sizeof(T) == 4 ? nullptr : unary<Same, T, uint32_t>;
    default:
      return unary<Same, T, int64_t>;
  }
}
TileFn find_integer_store(IntLane lane, DType dtype) {
  switch (lane) {
    case IntLane::u8:
      return find_store<uint8_t>(dtype);
    case IntLane::i8:
      return find_store<int8_t>(dtype);
    case IntLane::i16:
      return find_store<int16_t>(dtype);
    default:
      return find_store<int32_t>(dtype);
  }
}

template <class F>
TileFn find_fold(IntLane lane, Fold form) {
  switch (lane) {
    case IntLane::u8:
      return choose_fold<uint8_t, F>(form);
    case IntLane::i8:
      return choose_fold<int8_t, F>(form);
    case IntLane::i16:
      return choose_fold<int16_t, F>(form);
    default:
      return choose_fold<int32_t, F>(form);
  }
}
TileFn find_integer_reduce(Reduction reduction, IntLane lane, Fold form) {
  switch (reduction) {
    case Reduction::sum:
      return find_fold<Add>(lane, form);
    case Reduction::product:
      return find_fold<Multiply>(lane, form);
    case Reduction::min:
      return find_fold<Least>(lane, form);
    default:
      return find_fold<Most>(lane, form);
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_integer_fn);
HWY_EXPORT(find_integer_load);
HWY_EXPORT(find_integer_store);
HWY_EXPORT(find_integer_reduce);

TileFn integer_fn(const Expr& x, Scalar operand, IntLane lane, unsigned scalars) {
  return HWY_DYNAMIC_DISPATCH(find_integer_fn)(x, operand, lane, scalars);
}
TileFn integer_load_fn(DType dtype, IntLane lane) { return HWY_DYNAMIC_DISPATCH(find_integer_load)(dtype, lane); }
TileFn integer_store_fn(IntLane lane, DType dtype) { return HWY_DYNAMIC_DISPATCH(find_integer_store)(lane, dtype); }
TileFn integer_reduce_fn(Reduction reduction, IntLane lane, Fold fold) {
  return HWY_DYNAMIC_DISPATCH(find_integer_reduce)(reduction, lane, fold);
}
}  // namespace npusim::cpu::loops::tiles
#endif
