// Tile functions that reduce rows to their extreme and its index.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/extreme_index.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

// The float as wide as a lane.
template <class T>
using Index = std::conditional_t<sizeof(T) == 4, float, double>;

// What a point of the row does to the extreme so far and its index: of equal ones the first index counts, of NaN, which
// is the extreme, the first or the last.
template <class T, bool highest, bool last_nan>
struct Step {
  template <class D, class V, class P>
  static HWY_INLINE auto better(D d, V x, P index, V top, P at) {
    const auto earlier = hn::RebindMask(d, hn::Lt(index, at));
    auto beyond = hn::Or(highest ? hn::Gt(x, top) : hn::Lt(x, top), hn::And(hn::Eq(x, top), earlier));
    if constexpr (!std::is_integral_v<T>) {
      const auto nan = hn::IsNaN(x), seen = hn::IsNaN(top);
      const auto counts = last_nan ? hn::RebindMask(d, hn::Gt(index, at)) : earlier;
      beyond = hn::Or(beyond, hn::And(nan, hn::Or(hn::Not(seen), counts)));
    }
    return beyond;
  }
  static Index<T> infinity() { return std::numeric_limits<Index<T>>::infinity(); }
  static HWY_INLINE void one(T x, Index<T> index, T& top, Index<T>& at) {
    const bool nan = x != x, seen = top != top;
    const bool beyond = highest ? x > top : x < top;
    const bool counts = last_nan ? index > at : index < at;
    if (beyond || (x == top && index < at) || (nan && (!seen || counts))) top = x, at = index;
  }
};

template <class D>
HWY_INLINE auto load_inside(D d, const uint8_t* inside) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<T>(inside[i]);
  return hn::Ne(hn::Load(d, lanes), hn::Zero(d));
}

// From column j on, the first of a few vectors that have something beyond the extremes so far.
template <bool highest, class D, class V>
HWY_INLINE int64_t skip_within(D d, const hn::TFromD<D>* x, int64_t j, int64_t columns, V tops) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto within = [&](int64_t at) {
    const auto value = hn::LoadU(d, x + at);
    if constexpr (std::is_integral_v<hn::TFromD<D>>)
      return hn::Not(highest ? hn::Gt(value, tops) : hn::Lt(value, tops));
    else
      return highest ? hn::Le(value, tops) : hn::Ge(value, tops);  // which NaN is not
  };
  for (; j + 4 * lanes <= columns; j += 4 * lanes) {
    const auto both = hn::And(within(j), within(j + lanes)),
               others = hn::And(within(j + 2 * lanes), within(j + 3 * lanes));
    if (!hn::AllTrue(d, hn::And(both, others))) break;
  }
  return j;
}

// The row is along the columns.
template <class T, bool highest, bool last_nan, IndexLanes form>
void index_columns(const TileCall& c) {
  using S = Step<T, highest, last_nan>;
  const hn::ScalableTag<T> d;
  const hn::Rebind<Index<T>, decltype(d)> dp;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Index<T> step = *static_cast<const Index<T>*>(c.in[3]);
  const Index<T> ahead = step * static_cast<Index<T>>(*static_cast<const int64_t*>(c.extra));
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* x = row_of<T>(c, 0, r);
    const uint8_t* inside = form == IndexLanes::masked ? row_of<uint8_t>(c, 4, r) : nullptr;
    const Index<T>* given = row_of<Index<T>>(c, 1, r);
    const Index<T> first = *given + ahead;
    T& top = const_cast<T*>(static_cast<const T*>(c.in[2]))[r * c.in_row[2]];
    Index<T>& at = static_cast<Index<T>*>(c.dst)[r * c.dst_row];
    auto tops = hn::Set(d, top);
    auto indices = hn::Set(dp, at);
    // Indices that only rise: what is equal to an extreme changes nothing once there is one in each lane.
    const bool rises = form == IndexLanes::affine && step > 0 && (at == S::infinity() || at < first);
    const auto steps = hn::Mul(hn::Iota(dp, 0), hn::Set(dp, step));
    int64_t j = 0;
    for (; j + lanes <= c.columns; j += lanes) {
      if (rises && j > 0) j = skip_within<highest>(d, x, j, c.columns, tops);
      if (j + lanes > c.columns) break;
      const auto value = hn::LoadU(d, x + j);
      auto index = hn::Add(steps, hn::Set(dp, first + step * static_cast<Index<T>>(j)));
      if constexpr (form == IndexLanes::lanes) index = hn::LoadU(dp, given + j);
      auto better = S::better(d, value, index, tops, indices);
      if constexpr (form == IndexLanes::masked) better = hn::And(better, load_inside(d, inside + j));
      tops = hn::IfThenElse(better, value, tops);
      indices = hn::IfThenElse(hn::RebindMask(dp, better), index, indices);
    }
    HWY_ALIGN T top_lanes[HWY_MAX_BYTES / sizeof(T)];
    HWY_ALIGN Index<T> index_lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(tops, d, top_lanes);
    hn::Store(indices, dp, index_lanes);
    for (int64_t i = 0; i < lanes && j > 0; ++i)
      if (index_lanes[i] != S::infinity()) S::one(top_lanes[i], index_lanes[i], top, at);
    for (; j < c.columns; ++j)
      if (form != IndexLanes::masked || inside[j])
        S::one(x[j], form == IndexLanes::lanes ? given[j] : first + step * static_cast<Index<T>>(j), top, at);
  }
}

// The row is along the tile's rows (`along`), or each tile has one point of it.
template <class T, bool highest, bool last_nan, IndexLanes form, bool along>
void index_rows(const TileCall& c) {
  using S = Step<T, highest, last_nan>;
  const hn::ScalableTag<T> d;
  const hn::Rebind<Index<T>, decltype(d)> dp;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t group = 0; group < (along ? 1 : c.rows); ++group)
    for (int64_t j = 0; j < c.n; j += lanes) {
      T* top = const_cast<T*>(static_cast<const T*>(c.in[2])) + group * c.in_row[2] + j;
      Index<T>* at = static_cast<Index<T>*>(c.dst) + group * c.dst_row + j;
      auto tops = hn::LoadU(d, top);
      auto indices = hn::LoadU(dp, at);
      for (int64_t r = group; r < (along ? c.rows : group + 1); ++r) {
        const auto value = hn::LoadU(d, row_of<T>(c, 0, r) + j);
        const Index<T>* given = row_of<Index<T>>(c, 1, r);
        const auto index = form == IndexLanes::lanes ? hn::LoadU(dp, given + j) : hn::Set(dp, *given);
        auto better = S::better(d, value, index, tops, indices);
        if constexpr (form == IndexLanes::masked)
          better = hn::And(better, load_inside(d, row_of<uint8_t>(c, 4, r) + j));
        tops = hn::IfThenElse(better, value, tops);
        indices = hn::IfThenElse(hn::RebindMask(dp, better), index, indices);
      }
      hn::StoreU(tops, d, top);
      hn::StoreU(indices, dp, at);
    }
}

template <class T, bool highest, bool last_nan, IndexLanes form>
TileFn of_fold(Fold fold) {
  if (fold == Fold::columns) return index_columns<T, highest, last_nan, form>;
  return fold == Fold::rows ? index_rows<T, highest, last_nan, form, true>
                            : index_rows<T, highest, last_nan, form, false>;
}
template <class T, bool highest, bool last_nan>
TileFn of_form(Fold fold, IndexLanes form) {
  switch (form) {
    case IndexLanes::affine:
      return of_fold<T, highest, last_nan, IndexLanes::affine>(fold);
    case IndexLanes::masked:
      return of_fold<T, highest, last_nan, IndexLanes::masked>(fold);
    default:
      return of_fold<T, highest, last_nan, IndexLanes::lanes>(fold);
  }
}
template <class T>
TileFn of_type(bool highest, Fold fold, bool last_nan, IndexLanes form) {
  if constexpr (!std::is_integral_v<T>)
    if (last_nan) return highest ? of_form<T, true, true>(fold, form) : of_form<T, false, true>(fold, form);
  return highest ? of_form<T, true, false>(fold, form) : of_form<T, false, false>(fold, form);
}
TileFn find_extreme_index(bool highest, Scalar type, Fold fold, bool last_nan, IndexLanes form) {
  if (type == Scalar::i64) return of_type<int64_t>(highest, fold, last_nan, form);
  return type == Scalar::f32 ? of_type<float>(highest, fold, last_nan, form)
                             : of_type<double>(highest, fold, last_nan, form);
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_extreme_index);

TileFn extreme_index_fn(bool highest, Scalar type, Fold fold, bool last_nan, IndexLanes form) {
  return HWY_DYNAMIC_DISPATCH(find_extreme_index)(highest, type, fold, last_nan, form);
}

}  // namespace npusim::cpu::loops::tiles
#endif
