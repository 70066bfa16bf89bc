// Tile functions that compare: of float, double and integer lanes, to bytes 0 and 1 or to a choice between floats.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/compare.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

template <class T>
using Lanes = hn::ScalableTag<T>;
template <class T>
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Lanes<T>()));
constexpr size_t vector_bytes = sizeof(float) * static_cast<size_t>(lanes<float>);

template <size_t bytes>
using Signed =
    std::conditional_t<bytes == 1, int8_t,
                       std::conditional_t<bytes == 2, int16_t, std::conditional_t<bytes == 4, int32_t, int64_t>>>;

// Vectors of `bytes` a lane, each all ones or none, of the masks at lanes k, k + 1, … of type T.
template <class T, size_t bytes, class At>
HWY_INLINE auto marks(const At& at, int64_t k) {
  const Lanes<Signed<bytes>> d;
  if constexpr (bytes == sizeof(T)) {
    return hn::BitCast(d, hn::VecFromMask(Lanes<T>(), at(k)));
  } else {
    const auto low = marks<T, 2 * bytes>(at, k), high = marks<T, 2 * bytes>(at, k + lanes<Signed<2 * bytes>>);
    return hn::ConcatEven(d, hn::BitCast(d, high), hn::BitCast(d, low));
  }
}

// The masks at the lanes [k, k + lane_block) as bytes 0 and 1.
template <class T, class At>
HWY_INLINE void store_masks(const At& at, int64_t k, uint8_t* out) {
  constexpr size_t bytes = vector_bytes / lane_block;
  const Lanes<Signed<bytes>> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto ones = hn::And(marks<T, bytes>(at, k), hn::Set(d, 1));
  if constexpr (bytes == 1)
    hn::StoreU(hn::BitCast(d8, ones), d8, out + k);
  else
    hn::StoreU(hn::DemoteTo(d8, ones), d8, out + k);
}

struct Eq {
  template <class V>
  HWY_INLINE auto operator()(V a, V b) const {
    return hn::Eq(a, b);
  }
};
struct Ne {  // hn::Ne is ordered on some targets
  template <class V>
  HWY_INLINE auto operator()(V a, V b) const {
    return hn::Not(hn::Eq(a, b));
  }
};
struct Lt {
  template <class V>
  HWY_INLINE auto operator()(V a, V b) const {
    return hn::Lt(a, b);
  }
};
struct Le {
  template <class V>
  HWY_INLINE auto operator()(V a, V b) const {
    if constexpr (std::is_floating_point_v<hn::TFromV<V>>)
      return hn::Le(a, b);
    else
      return hn::Not(hn::Lt(b, a));
  }
};

template <class F, class T, unsigned scalars>
void compare(const TileCall& c) {
  const Lanes<T> d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *a = row_of<T>(c, 0, r), *b = row_of<T>(c, 1, r);
    uint8_t* out = dst_row_of<uint8_t>(c, r);
    const auto fa = hn::Set(d, *a), fb = hn::Set(d, *b);
    const auto at = [&](int64_t j) HWY_ATTR {
      return F()(scalars & 1 ? fa : hn::LoadU(d, a + j), scalars & 2 ? fb : hn::LoadU(d, b + j));
    };
    for (int64_t j = 0; j < n; j += lane_block) store_masks<T>(at, j, out);
  }
}
template <class F, class T>
TileFn compare_by(unsigned scalars) {
  constexpr TileFn fns[] = {compare<F, T, 0>, compare<F, T, 1>, compare<F, T, 2>, compare<F, T, 3>};
  return fns[scalars];
}
template <class T>
TileFn compare_as(ExprOp op, unsigned scalars) {
  switch (op) {
    case ExprOp::eq:
      return compare_by<Eq, T>(scalars);
    case ExprOp::ne:
      return compare_by<Ne, T>(scalars);
    case ExprOp::lt:
      return compare_by<Lt, T>(scalars);
    case ExprOp::le:
      return compare_by<Le, T>(scalars);
    default:
      return nullptr;
  }
}
TileFn find_compare(ExprOp op, Scalar type, unsigned scalars) {
  if (type == Scalar::f32) return compare_as<float>(op, scalars);
  return type == Scalar::f64 ? compare_as<double>(op, scalars) : compare_as<int64_t>(op, scalars);
}

// A relation of each element with itself or with zero.
template <class F, class T, bool itself>
void test(const TileCall& c) {
  const Lanes<T> d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = row_of<T>(c, 0, r);
    uint8_t* out = dst_row_of<uint8_t>(c, r);
    const auto at = [&](int64_t j) HWY_ATTR {
      const auto x = hn::LoadU(d, a + j);
      return F()(x, itself ? x : hn::Zero(d));
    };
    for (int64_t j = 0; j < n; j += lane_block) store_masks<T>(at, j, out);
  }
}
TileFn find_is_nan(Scalar type) {
  return type == Scalar::f32 ? test<Ne, float, true> : type == Scalar::f64 ? test<Ne, double, true> : nullptr;
}
TileFn find_truth(Scalar type) {
  if (type == Scalar::f32) return test<Ne, float, false>;
  return type == Scalar::f64 ? test<Ne, double, false> : test<Ne, int64_t, false>;
}

// in[0] ⋛ in[1] ? in[2] : in[3] on lanes of floats or doubles.
template <class F, class T, unsigned scalars>
void choose(const TileCall& c) {
  const Lanes<T> d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *a = row_of<T>(c, 0, r), *b = row_of<T>(c, 1, r);
    const T *x = row_of<T>(c, 2, r), *y = row_of<T>(c, 3, r);
    T* out = dst_row_of<T>(c, r);
    const auto fa = hn::Set(d, *a), fb = hn::Set(d, *b), fx = hn::Set(d, *x), fy = hn::Set(d, *y);
    const auto one = [&](int64_t j) HWY_ATTR {
      const auto holds = F()(scalars & 1 ? fa : hn::LoadU(d, a + j), scalars & 2 ? fb : hn::LoadU(d, b + j));
      hn::StoreU(hn::IfThenElse(holds, scalars & 4 ? fx : hn::LoadU(d, x + j), scalars & 8 ? fy : hn::LoadU(d, y + j)),
                 d, out + j);
    };
    for (int64_t j = 0; j < n; j += lane_block)
      for (int64_t k = j; k < j + lane_block; k += lanes<T>) one(k);
  }
}
// in[0] < in[1] ? in[1] : in[1] · in[2], of one in[0] in a row.
template <bool fixed>
void leak(const TileCall& c) {
  const Lanes<float> d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const float *x = row_of<float>(c, 1, r), *slope = row_of<float>(c, 2, r);
    float* out = dst_row_of<float>(c, r);
    const auto bound = hn::Set(d, *row_of<float>(c, 0, r)), same = hn::Set(d, *slope);
    for (int64_t j = 0; j < n; j += lane_block)
      for (int64_t k = j; k < j + lane_block; k += lanes<float>) {
        const auto one = hn::LoadU(d, x + k);
        hn::StoreU(hn::IfThenElse(hn::Lt(bound, one), one, hn::Mul(one, fixed ? same : hn::LoadU(d, slope + k))), d,
                   out + k);
      }
  }
}
void between(const TileCall& c) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const float *a = row_of<float>(c, 0, r), *b = row_of<float>(c, 1, r), *weight = row_of<float>(c, 2, r);
    float* out = dst_row_of<float>(c, r);
    for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto from = hn::LoadU(d, a + j), to = hn::LoadU(d, b + j), w = hn::LoadU(d, weight + j);
      const auto distance = hn::Sub(to, from);
      const auto near = hn::Add(from, hn::Mul(w, distance)), far = hn::Sub(to, hn::Mul(distance, hn::Sub(one, w)));
      hn::StoreU(hn::IfThenElse(hn::Lt(hn::Abs(w), half), near, far), d, out + j);
    }
  }
}
TileFn find_between() { return between; }
TileFn find_leak(bool fixed) { return fixed ? leak<true> : leak<false>; }

// in[0], or less it where in[1] has a sign and is a number.
template <class T>
void flip(const TileCall& c) {
  const Lanes<T> d;
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T *a = row_of<T>(c, 0, r), *b = row_of<T>(c, 1, r);
    T* out = dst_row_of<T>(c, r);
    for (int64_t j = 0; j < n; j += lane_block)
      for (int64_t k = j; k < j + lane_block; k += lanes<T>) {
        const auto y = hn::LoadU(d, b + k);
        const auto sign = hn::IfThenZeroElse(hn::IsNaN(y), hn::And(y, hn::SignBit(d)));
        hn::StoreU(hn::Xor(hn::LoadU(d, a + k), sign), d, out + k);
      }
  }
}
TileFn find_flip(Scalar type) { return type == Scalar::f32 ? flip<float> : flip<double>; }

template <class F, unsigned... scalars>
TileFn choose_by(Scalar type, unsigned which, std::integer_sequence<unsigned, scalars...>) {
  constexpr TileFn of_floats[] = {choose<F, float, scalars>...}, of_doubles[] = {choose<F, double, scalars>...};
  return type == Scalar::f32 ? of_floats[which] : of_doubles[which];
}
TileFn find_choose(ExprOp op, Scalar type, unsigned scalars) {
  constexpr std::make_integer_sequence<unsigned, 16> all{};
  switch (op) {
    case ExprOp::eq:
      return choose_by<Eq>(type, scalars, all);
    case ExprOp::ne:
      return choose_by<Ne>(type, scalars, all);
    case ExprOp::lt:
      return choose_by<Lt>(type, scalars, all);
    default:
      return choose_by<Le>(type, scalars, all);
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_compare);
HWY_EXPORT(find_is_nan);
HWY_EXPORT(find_truth);
HWY_EXPORT(find_choose);
HWY_EXPORT(find_leak);
HWY_EXPORT(find_between);
HWY_EXPORT(find_flip);

TileFn compare_fn(ExprOp op, Scalar type, unsigned scalars) {
  return HWY_DYNAMIC_DISPATCH(find_compare)(op, type, scalars);
}
TileFn is_nan_fn(Scalar type) { return HWY_DYNAMIC_DISPATCH(find_is_nan)(type); }
TileFn truth_fn(Scalar type) { return HWY_DYNAMIC_DISPATCH(find_truth)(type); }
TileFn choose_fn(ExprOp relation, Scalar type, unsigned scalars) {
  return HWY_DYNAMIC_DISPATCH(find_choose)(relation, type, scalars);
}
TileFn between_fn() { return HWY_DYNAMIC_DISPATCH(find_between)(); }
TileFn leak_fn(bool fixed) { return HWY_DYNAMIC_DISPATCH(find_leak)(fixed); }
TileFn flip_fn(Scalar type) { return HWY_DYNAMIC_DISPATCH(find_flip)(type); }
}  // namespace npusim::cpu::loops::tiles
#endif
