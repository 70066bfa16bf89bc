// Tile functions of two operations on float lanes, one after the other: what is between them stays in registers.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/pair.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/loops/tiles/tile-inl.h"
#include "backends/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <Link link>
HWY_INLINE V linked(V x, V y) {
  if constexpr (link == Link::add) return hn::Add(x, y);
  if constexpr (link == Link::sub) return hn::Sub(x, y);
  if constexpr (link == Link::from) return hn::Sub(y, x);
  if constexpr (link == Link::mul) return hn::Mul(x, y);
  if constexpr (link == Link::div) return hn::Div(x, y);
  if constexpr (link == Link::over) return hn::Div(y, x);
  if constexpr (link == Link::min) return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(x, y));
  if constexpr (link == Link::max) return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, y));
  // The second operand where that is NaN.
  if constexpr (link == Link::at_most) return hn::Min(y, x);
  if constexpr (link == Link::at_least) return hn::Max(y, x);
  if constexpr (link == Link::positive) return hn::IfThenZeroElse(hn::Le(x, hn::Zero(D())), x);
}

template <Link>
HWY_INLINE V linked(V x, const Divisor<D>& y) {
  return y.under(D(), x);
}

// One number for all lanes.
template <Link link>
HWY_INLINE auto same_for_all(float y) {
  if constexpr (link == Link::div)
    return Divisor<D>(D(), y);
  else
    return hn::Set(D(), y);
}

template <Link link, bool fixed, class One>
HWY_INLINE V joined(V x, const float* y, const One& one) {
  if constexpr (fixed)
    return linked<link>(x, one);
  else
    return linked<link>(x, hn::LoadU(D(), y));
}

template <Link first, bool first_fixed, Link second, bool second_fixed>
void pair(const TileCall& call) {
  const D d;
  const int64_t n = lanes_of(call);
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t r = 0; r < call.rows; ++r) {
    const float *a = row_of<float>(call, 0, r), *b = row_of<float>(call, 1, r), *c = row_of<float>(call, 2, r);
    float* out = dst_row_of<float>(call, r);
    const auto fb = same_for_all<first>(*b);
    const auto fc = same_for_all<second>(*c);
    for (int64_t j = 0; j < n; j += lane_block)
      for (int64_t k = j; k < j + lane_block; k += lanes) {
        const V x = joined<first, first_fixed>(hn::LoadU(d, a + k), b + k, fb);
        hn::StoreU(joined<second, second_fixed>(x, c + k, fc), d, out + k);
      }
  }
}

template <Link first, bool first_fixed, Link second, bool second_fixed>
constexpr TileFn pair_of() {
  constexpr bool sums_product =
      first == Link::mul && (second == Link::add || second == Link::sub || second == Link::from);
  if constexpr (sums_product)
    return nullptr;  // that is a FusedOp
  else
    return pair<first, first_fixed, second, second_fixed>;
}

template <Link first, bool first_fixed>
TileFn find_second(Link second, bool fixed) {
  switch (second) {
    case Link::add:
      return fixed ? pair_of<first, first_fixed, Link::add, true>() : pair_of<first, first_fixed, Link::add, false>();
    case Link::sub:
      return fixed ? pair_of<first, first_fixed, Link::sub, true>() : pair_of<first, first_fixed, Link::sub, false>();
    case Link::from:
      return fixed ? pair_of<first, first_fixed, Link::from, true>() : pair_of<first, first_fixed, Link::from, false>();
    case Link::mul:
      return fixed ? pair_of<first, first_fixed, Link::mul, true>() : pair_of<first, first_fixed, Link::mul, false>();
    case Link::div:
      return fixed ? pair_of<first, first_fixed, Link::div, true>() : pair_of<first, first_fixed, Link::div, false>();
    case Link::over:
      return fixed ? pair_of<first, first_fixed, Link::over, true>() : pair_of<first, first_fixed, Link::over, false>();
    case Link::min:
      return fixed ? nullptr : pair_of<first, first_fixed, Link::min, false>();
    case Link::max:
      return fixed ? nullptr : pair_of<first, first_fixed, Link::max, false>();
    case Link::at_most:
      return fixed ? pair_of<first, first_fixed, Link::at_most, true>() : nullptr;
    case Link::at_least:
      return fixed ? pair_of<first, first_fixed, Link::at_least, true>() : nullptr;
    default:
      return fixed ? pair_of<first, first_fixed, Link::positive, true>() : nullptr;
  }
}

TileFn find_pair(Link first, bool first_fixed, Link second, bool fixed) {
  switch (first) {
    case Link::add:
      return first_fixed ? find_second<Link::add, true>(second, fixed) : find_second<Link::add, false>(second, fixed);
    case Link::sub:
      return first_fixed ? find_second<Link::sub, true>(second, fixed) : find_second<Link::sub, false>(second, fixed);
    case Link::from:
      return first_fixed ? find_second<Link::from, true>(second, fixed) : nullptr;
    case Link::mul:
      return first_fixed ? find_second<Link::mul, true>(second, fixed) : find_second<Link::mul, false>(second, fixed);
    case Link::div:
      return first_fixed ? find_second<Link::div, true>(second, fixed) : find_second<Link::div, false>(second, fixed);
    case Link::over:
      return first_fixed ? find_second<Link::over, true>(second, fixed) : nullptr;
    case Link::min:
      return first_fixed ? nullptr : find_second<Link::min, false>(second, fixed);
    case Link::max:
      return first_fixed ? nullptr : find_second<Link::max, false>(second, fixed);
    case Link::at_most:
      return first_fixed ? find_second<Link::at_most, true>(second, fixed) : nullptr;
    case Link::at_least:
      return first_fixed ? find_second<Link::at_least, true>(second, fixed) : nullptr;
    default:
      return first_fixed ? find_second<Link::positive, true>(second, fixed) : nullptr;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_pair);

TileFn pair_fn(Link first, bool first_fixed, Link second, bool second_fixed) {
  return HWY_DYNAMIC_DISPATCH(find_pair)(first, first_fixed, second, second_fixed);
}
}  // namespace npusim::cpu::loops::tiles
#endif
