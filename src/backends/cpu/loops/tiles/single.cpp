// Tile functions of rare mathematics on float lanes by vectors of float, twice as many lanes as of double. What a
// product or a sum rounds off is found, exactly, and added in the end: the result is off by 0.8 of its last place at
// most. Where products are exact with sums, and not for a compiler that makes one rounding of two by itself.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/single.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "backends/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;
namespace {
#if HWY_NATIVE_FMA
using Single = hn::ScalableTag<float>;
using S = hn::Vec<Single>;
constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Single()));

HWY_INLINE S polynomial_of(S, S sum) { return sum; }
template <typename... Rest>
HWY_INLINE S polynomial_of(S x, S sum, float next, Rest... rest) {
  return polynomial_of(x, hn::MulAdd(sum, x, hn::Set(Single(), next)), rest...);
}

struct Rounded {
  S value, rest;
};
// Of normal numbers.
HWY_INLINE Rounded quotient(const Rounded& above, const Rounded& below) {
  const S inverse = near_inverse(Single(), below.value);
  const S near = hn::Mul(above.value, inverse);
  const S left = hn::Add(hn::NegMulAdd(near, below.value, above.value), hn::NegMulAdd(near, below.rest, above.rest));
  const S value = hn::MulAdd(left, inverse, near);
  return {value, hn::MulAdd(left, inverse, hn::Sub(near, value))};
}

struct SingleAtan {
  static constexpr bool everywhere = true;
#if HWY_TARGET == HWY_AVX3
  // By pieces up to 1, behind it π/2 − atan(1 / a) of an inverse with its rest; from 1e10 on it is π/2.
  static HWY_INLINE S of(S x) {
    const Single d;
    const S size = hn::Add(hn::Abs(x), hn::Set(d, next_to_nothing)), a = hn::Min(hn::Set(d, 1e10f), size);
    const S one = hn::Set(d, 1), first = near_inverse(d, a);
    const auto steep = hn::Gt(a, one);  // not of NaN
    const S over = hn::MulAdd(hn::NegMulAdd(first, a, one), first, first), t = hn::IfThenElse(steep, over, a);
    const auto key =
        hn::BitCast(hn::RebindToSigned<Single>(), hn::MulAdd(t, hn::Set(d, 31), hn::Set(d, whole_anchor_of_floats)));
    const Piece<S> piece = piece_of(d, atan_pieces, key, t);  // its slope less 1
    const S left = hn::IfThenElseZero(steep, hn::Mul(hn::NegMulAdd(over, a, one), first));
    const S flip = hn::IfThenElseZero(steep, hn::Set(d, -0.0f)),
            from = hn::IfThenElseZero(steep, hn::Set(d, 1.57079637f));
    const S start = hn::Xor(piece.start, flip), r = hn::Xor(hn::Add(piece.r, left), flip);
    const S sum = hn::Add(from, start), lost = hn::Add(hn::Sub(from, sum), start);
    const S rest = hn::MulAdd(from, hn::Set(d, -2.78275e-8f), lost);  // from is that much above π/2
    const S angle = hn::Add(sum, hn::MulAdd(r, piece.slope, hn::Add(r, rest)));
    return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x1p-13f)), hn::Abs(x), angle), x);
  }
#else
  // By (a − 1) / (a + 1) between tan(π/8) and tan(3π/8), by −1 / a behind, whose rests are exact; from 1e10 on it is
  // π/2.
  static HWY_INLINE S of(S x) {
    const Single d;
    const S a = hn::Min(hn::Set(d, 1e10f), hn::Abs(x)), one = hn::Set(d, 1);  // of NaN it is NaN
    const auto shallow = hn::Le(a, hn::Set(d, 0.41421356f)), steep = hn::Gt(a, hn::Set(d, 2.4142135f));
    const S p = hn::IfThenZeroElse(shallow, one), q = hn::IfThenZeroElse(steep, one);
    const S above = hn::MulSub(q, a, p), below = hn::MulAdd(p, a, q);
    const Rounded t =
        quotient({above, hn::MulSub(q, a, hn::Add(above, p))}, {below, hn::MulSub(p, a, hn::Sub(below, q))});
    const S from =
        hn::IfThenZeroElse(shallow, hn::IfThenElse(steep, hn::Set(d, 1.57079637f), hn::Set(d, 0.785398185f)));
    const S z = hn::Mul(t.value, t.value);
    const S series =
        polynomial_of(z, hn::Set(d, -0.060833580105f), 0.10595965765f, -0.14243844164f, 0.1999848921f, -0.33333315502f);
    const S sum = hn::Add(from, t.value), left = hn::Sub(t.value, hn::Sub(sum, from));
    const S rest = hn::MulAdd(from, hn::Set(d, -2.78275e-8f), hn::Add(left, t.rest));  // from is that much above π/2
    return hn::CopySign(hn::Add(sum, hn::MulAdd(hn::Mul(t.value, z), series, rest)), x);
  }
#endif
};

// What the arcs of sine and cosine have in common, of a size: of a = |x| up to a half the arc sine is a + rest, of
// greater ones it is π/2 − 2(a + rest) of a = sqrt((1 − |x|) / 2), whose rest by the root's rounding is in `rest`.
struct Arc {
  hn::Mask<Single> steep;
  S a, rest;
};
HWY_INLINE Arc arc_of(S size) {
  const Single d;
  const S half = hn::Set(d, 0.5f);
  const auto steep = hn::Gt(size, half);
  const S z = hn::IfThenElse(steep, hn::NegMulAdd(size, half, half),
                             hn::MulAdd(size, size, hn::Set(d, next_to_nothing * 0x1p-10f)));
  const S root = hn::Sqrt(z), a = hn::IfThenElse(steep, root, size);
  const S twice = hn::Max(hn::Add(root, root), hn::Set(d, std::numeric_limits<float>::min()));  // of 0 the rest is 0
  const S left = hn::IfThenElseZero(steep, hn::Mul(hn::NegMulAdd(root, root, z), near_inverse(d, twice)));
  const S series =
      polynomial_of(z, hn::Set(d, 0.0422185659f), 0.0241476018f, 0.0454770997f, 0.0749524161f, 0.166667536f);
  return {steep, a, hn::MulAdd(hn::Mul(a, z), series, left)};
}
// from + times · (a + rest), of which the first product is exact and not greater than `from`, unless that is 0; π is a
// little less than the float next to it, and so are its parts.
HWY_INLINE S away_from(S from, S times, const Arc& arc) {
  const Single d;
  const S all = hn::MulAdd(times, arc.a, from), left = hn::MulAdd(times, arc.a, hn::Sub(from, all));
  return hn::Add(all, hn::MulAdd(times, arc.rest, hn::MulAdd(from, hn::Set(d, -2.78275e-8f), left)));
}
struct SingleAsin {
  static constexpr bool everywhere = true;
  static HWY_INLINE S of(S x) {
    const Single d;
    const Arc arc = arc_of(hn::Add(hn::Abs(x), hn::Set(d, 0x1p-60f)));
    const S from = hn::IfThenElseZero(arc.steep, hn::Set(d, 1.57079637f));
    const S angle = away_from(from, hn::IfThenElse(arc.steep, hn::Set(d, -2), hn::Set(d, 1)), arc);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-20f)), x, hn::CopySign(angle, x));
  }
};
struct SingleAcos {
  static constexpr bool everywhere = true;
  static HWY_INLINE S of(S x) {
    const Single d;
    const Arc arc = arc_of(hn::Add(hn::Abs(x), hn::Set(d, next_to_nothing)));
    const S behind = hn::IfThenElseZero(hn::Lt(x, hn::Zero(d)), hn::Set(d, 3.14159274f));
    const S times = hn::IfThenElse(arc.steep, hn::CopySign(hn::Set(d, 2), x), hn::CopySign(hn::Set(d, 1), hn::Neg(x)));
    return away_from(hn::IfThenElse(arc.steep, behind, hn::Set(d, 1.57079637f)), times, arc);
  }
};

struct SingleTan {
  static constexpr ExprOp op = ExprOp::tan;
#if HWY_TARGET == HWY_AVX3
  // x = n · π/2 + near + n · part, `near` exact.
  struct Reduced {
    S anchored, n, near;  // n next to a number that leaves its last bits as they are
  };
  static HWY_INLINE Reduced reduced(S x) {
    const Single d;
    const S anchor = hn::Set(d, whole_anchor_of_floats), off = hn::Add(x, hn::Set(d, 0x1p-50f));
    const S anchored = hn::MulAdd(off, hn::Set(d, 0.636619772f), anchor), n = hn::Sub(anchored, anchor);
    return {anchored, n, hn::NegMulAdd(n, hn::Set(d, 1.57079637051f), off)};
  }
  // Or so near to a multiple of π/2 that more digits of it count.
  static HWY_INLINE hn::Mask<Single> far(S x) {
    const Single d;
    const S size = hn::Abs(x);
    const auto multiple = hn::Lt(hn::Abs(reduced(x).near), hn::Mul(size, hn::Set(d, 0x1p-20f)));
    return hn::Or(hn::Gt(size, hn::Set(d, 8192)), multiple);
  }
  // Of the rest by π/2 the tangent u by pieces, of which an odd number of quarters makes −1 / u.
  static HWY_INLINE S of(S x) {
    const Single d;
    const hn::RebindToSigned<Single> bits;
    const auto [anchored, n, near] = reduced(x);
    const S sign = hn::And(near, hn::Set(d, -0.0f)), size = hn::Abs(near), signed_n = hn::Xor(n, sign);
    const S part = hn::Set(d, 4.37113882867e-8f);
    const auto key = hn::BitCast(bits, hn::MulAdd(size, hn::Set(d, 39), hn::Set(d, whole_anchor_of_floats)));
    S r_rest;
    const auto rest = [&](S centre) HWY_ATTR {
      const S first = hn::Sub(size, centre), r = hn::MulAdd(signed_n, part, first);
      r_rest = hn::MulAdd(signed_n, part, hn::Sub(first, r));
      return r;
    };
    const Piece<S> piece = piece_by(d, tan_pieces, key, rest);  // its slope less 1
    const S r = piece.r;
    const S sum = hn::Add(piece.start, r), lost = hn::Add(hn::Sub(piece.start, sum), r);
    const S more = hn::MulAdd(piece.slope, r, hn::Add(lost, r_rest));
    const S u = hn::Add(sum, more), u_rest = hn::Add(hn::Sub(sum, u), more), over = near_inverse(d, u);
    const S left = hn::NegMulAdd(over, u_rest, hn::NegMulAdd(over, u, hn::Set(d, 1)));
    const auto whole = hn::BitCast(bits, anchored);
    const auto odd = hn::RebindMask(d, hn::TestBit(whole, hn::Set(bits, 1)));
    const S flip = hn::Xor(hn::BitCast(d, hn::ShiftLeft<31>(whole)), sign);  // the sign, where n is odd the other
    const S value = hn::Xor(hn::IfThenElse(odd, hn::MulAdd(over, left, over), u), flip);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-14f)), x, value);
  }
#else
  static HWY_INLINE hn::Mask<Single> far(S x) { return hn::Gt(hn::Abs(x), hn::Set(Single(), 8192)); }
  // Of half the rest by π/2 the tangent u, of which 2u / (1 − u²) is the rest's, or −1 over it.
  static HWY_INLINE S of(S x) {
    const Single d;
    const hn::RebindToSigned<Single> bits;
    const S one = hn::Set(d, 1), half = hn::Set(d, 0.5f);
    const S anchor = hn::Set(d, 0x1.8p23f);  // of a number next to it the low bits are the whole part
    const S off = hn::Add(x, hn::Set(d, 0x1p-50f));
    const S anchored = hn::MulAdd(off, hn::Set(d, 0.636619772f), anchor), n = hn::Sub(anchored, anchor);
    const S near = hn::NegMulAdd(n, hn::Set(d, 1.57079637051f), off), part = hn::Set(d, 4.37113882867e-8f);  // exact
    const S step = hn::Mul(n, part), r = hn::Add(near, step), back = hn::Sub(r, near);
    const S lost = hn::Add(hn::Sub(near, hn::Sub(r, back)), hn::Sub(step, back));
    const S r_rest = hn::MulAdd(n, hn::Set(d, 1.71512451e-15f), hn::Add(lost, hn::MulSub(n, part, step)));
    const S h = hn::Mul(r, half), h_rest = hn::Mul(r_rest, half), z = hn::MulAdd(h, h, hn::Set(d, 0x1p-50f));
    const S series = polynomial_of(z, hn::Set(d, 0.025579973304f), 0.053469281247f, 0.13335934743f, 0.33333291417f);
    const S more = hn::MulAdd(hn::Mul(h, z), series, hn::MulAdd(h_rest, z, h_rest));
    const S u = hn::Add(h, more), u_rest = hn::Add(hn::Sub(h, u), more);
    const Rounded twice = {hn::Add(u, u), hn::Add(u_rest, u_rest)};
    const S square = hn::MulAdd(u, u, hn::Set(d, 0x1p-50f)), c = hn::Sub(one, square);
    const S square_rest = hn::MulAdd(twice.value, u_rest, hn::MulSub(u, u, square));
    const S c_rest = hn::Sub(hn::Sub(hn::Sub(one, c), square), square_rest);
    const S flip = hn::BitCast(d, hn::ShiftLeft<31>(hn::BitCast(bits, anchored)));  // the sign where n is odd
    const auto odd = hn::MaskFromVec(hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(bits, flip))));
    const Rounded above = {hn::IfThenElse(odd, c, twice.value), hn::IfThenElse(odd, c_rest, twice.rest)};
    const Rounded below = {hn::IfThenElse(odd, twice.value, c), hn::IfThenElse(odd, twice.rest, c_rest)};
    return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-14f)), x, hn::Xor(quotient(above, below).value, flip));
  }
#endif
};

struct SingleErfc {
  static constexpr bool everywhere = true;
  // e^(−a²) times e^(a²)·erfc(a); a up to 10.06, where a float has nothing left. What the square rounds off is put
  // back.
  static HWY_INLINE S of(S x) {
    const Single d;
    const S size = hn::Add(hn::Abs(x), hn::Set(d, next_to_nothing)), a = hn::Min(hn::Set(d, 10.06f), size);
    const auto beyond = hn::Gt(size, a);  // of NaN a is NaN
    const S square = hn::IfThenZeroElse(beyond, hn::Mul(a, a));
    const PartedExp<S> power = parted_exp(d, hn::Neg(square));
    const S y = hn::IfThenZeroElse(beyond, hn::Mul(hn::Mul(scaled(a), hn::Set(d, 16)), power.part));
    // By its power of 2 in the end, where it may be below normal numbers: there scaled is 1/18 to 1/16.
    const S small = scale(d, hn::MulAdd(y, hn::NegMulAdd(a, a, square), y), hn::Sub(power.power, hn::Set(d, 4)));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2), small), small);
  }

 private:
  // e^(a²)·erfc(a): (1 + 2a) times it, less 1, is a polynomial of (a − 2) / (a + 2). What quotients round off is put
  // back.
  static HWY_INLINE S scaled(S a) {
    const Single d;
#if HWY_TARGET == HWY_AVX3
    return by_pieces(d, scaled_erfc_pieces, key_of_eighths(d, a, 0.74f), a);
#else
    const S one = hn::Set(d, 1), two = hn::Set(d, 2), half = hn::Set(d, 0.5f);
    const S below = hn::Add(a, two), twice = hn::MulAdd(a, two, one), both = near_inverse(d, hn::Mul(below, twice));
    const S by_below = hn::Mul(both, twice), by_twice = hn::Mul(both, below);
    const S near = hn::Mul(hn::Sub(a, two), by_below);
    const S t = hn::MulAdd(hn::NegMulAdd(a, near, hn::NegMulAdd(hn::Add(near, one), two, a)), by_below, near);
    const S p =
        polynomial_of(t, hn::Set(d, -4.01037950e-4f), -1.23071348e-3f, 1.31361075e-3f, 8.63232552e-3f, -8.05976791e-3f,
                      -5.42044667e-2f, 1.64055315e-1f, -1.66031411e-1f, -9.27639792e-2f, 2.76978393e-1f);
    const S first = hn::MulAdd(p, by_twice, by_twice);
    const S left = hn::MulAdd(hn::NegMulAdd(first, a, half), two, hn::Sub(p, first));
    return hn::MulAdd(left, by_twice, first);
#endif
  }
};

// A vector's lanes by the function of doubles.
HWY_INLINE void in_doubles(ExprOp op, const float* a, float* out) {
  TileCall c{.dst = out, .in = {a}, .rows = 1, .n = lanes, .columns = lanes};
  rare_fn(op, 0)(c);
}

template <class F>
void singles(const TileCall& c) {
  const Single d;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    for (int64_t j = 0; j < c.n; j += lanes) {
      const S x = hn::LoadU(d, a + j);
      S y = F::of(x);
      if constexpr (!requires { F::everywhere; }) {
        const auto far = F::far(x);
        if (HWY_UNLIKELY(!hn::AllFalse(d, far))) {
          HWY_ALIGN float others[hn::MaxLanes(Single())];
          in_doubles(F::op, a + j, others);
          y = hn::IfThenElse(far, hn::Load(d, others), y);
        }
      }
      hn::StoreU(y, d, out + j);
    }
  }
}

// Remainders of quotients up to 2^22 are exact in floats where products are not rounded, as those in doubles are: the
// rest is a multiple of the lesser one's last place. The quotient's rounding may take it up to the next whole number.
template <unsigned scalars>
void remainders(const TileCall& c) {
  const Single d;
  const int64_t n = c.n;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* a = static_cast<const float*>(c.in[0]) + r * c.in_row[0];
    const float* b = static_cast<const float*>(c.in[1]) + r * c.in_row[1];
    float* out = static_cast<float*>(c.dst) + r * c.dst_row;
    const float fixed_a = *a, fixed_b = *b;
    for (int64_t j = 0; j < n; j += lanes) {
      const auto x = scalars & 1 ? hn::Set(d, fixed_a) : hn::LoadU(d, a + j);
      const auto y = scalars & 2 ? hn::Set(d, fixed_b) : hn::LoadU(d, b + j);
      const auto quotient = hn::Trunc(hn::Div(x, y));
      const auto fits = hn::And(hn::Le(hn::Abs(quotient), hn::Set(d, 0x1p22f)),
                                hn::Lt(hn::Abs(y), hn::Set(d, std::numeric_limits<float>::infinity())));
      if (!hn::AllTrue(d, fits)) {
        TileCall doubles{.dst = out + j, .rows = 1, .n = lanes, .columns = lanes};
        doubles.in[0] = scalars & 1 ? a : a + j, doubles.in[1] = scalars & 2 ? b : b + j;
        rare_fn(ExprOp::fmod, scalars)(doubles);
        continue;
      }
      const auto rest = hn::NegMulAdd(quotient, y, x);
      const auto beyond = hn::Lt(hn::Mul(hn::CopySign(hn::Set(d, 1), x), rest), hn::Zero(d));
      const auto least = hn::IfThenElse(beyond, hn::Add(rest, hn::CopySign(y, x)), rest);
      hn::StoreU(hn::CopySign(least, x), d, out + j);
    }
  }
}
TileFn find_single(ExprOp op, unsigned scalars) {
  constexpr TileFn rests[] = {remainders<0>, remainders<1>, remainders<2>, remainders<3>};
  switch (op) {
    case ExprOp::tan:
      return singles<SingleTan>;
    case ExprOp::asin:
      return singles<SingleAsin>;
    case ExprOp::acos:
      return singles<SingleAcos>;
    case ExprOp::atan:
      return singles<SingleAtan>;
    case ExprOp::erfc:
      return singles<SingleErfc>;
    case ExprOp::fmod:
      return rests[scalars];
    default:
      return nullptr;
  }
}
#else
TileFn find_single(ExprOp, unsigned) { return nullptr; }
#endif

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_single);

TileFn single_fn(ExprOp op, unsigned scalars) { return HWY_DYNAMIC_DISPATCH(find_single)(op, scalars); }

}  // namespace npusim::cpu::loops::tiles
#endif
