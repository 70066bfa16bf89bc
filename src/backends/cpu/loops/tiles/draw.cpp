// Tile functions of random draws: ten rounds of Philox in 64-bit lanes, of which products take the low halves.
#include "backends/cpu/loops/tiles/tile.h"
#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/loops/tiles/draw.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/loops/tiles/tile-inl.h"
#include "kernel/draw.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<uint64_t>;
using Halves = hn::Repartition<uint32_t, D>;
using V = hn::Vec<D>;

HWY_INLINE V product(V a, V b) {
  const Halves halves;
  return hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, b));
}

// Words before a round, of which the high halves are anything.
struct Words {
  V w0, w1, w2, w3;
};

HWY_INLINE Words round(D d, Words w, V key0, V key1) {
  const V a = product(w.w0, hn::Set(d, static_cast<uint64_t>(philox_factors[0])));
  const V b = product(w.w2, hn::Set(d, static_cast<uint64_t>(philox_factors[1])));
  return {hn::Xor(hn::Xor(hn::ShiftRight<32>(b), w.w1), key0), b, hn::Xor(hn::Xor(hn::ShiftRight<32>(a), w.w3), key1),
          a};
}

HWY_INLINE V packed(D d, V first, V second) {
  return hn::Or(hn::And(first, hn::Set(d, uint64_t{low_32_bits})), hn::ShiftLeft<32>(second));
}

template <bool second_pair>
HWY_INLINE V last_round(D d, Words w, V key0, V key1) {
  const Words words = round(d, w, key0, key1);
  return second_pair ? packed(d, words.w2, words.w3) : packed(d, words.w0, words.w1);
}

using Keys = V[philox_rounds][2];

HWY_INLINE void schedule(D d, V key0, V key1, Keys& keys) {
  for (size_t n = 0; n < philox_rounds; ++n) {
    keys[n][0] = hn::Add(key0, hn::Set(d, n * static_cast<uint64_t>(philox_steps[0])));
    keys[n][1] = hn::Add(key1, hn::Set(d, n * static_cast<uint64_t>(philox_steps[1])));
  }
}

template <size_t n, bool second_pair>
HWY_INLINE V rounds_from(D d, Words w, const Keys& keys) {
  if constexpr (n + 1 == philox_rounds)
    return last_round<second_pair>(d, w, keys[n][0], keys[n][1]);
  else
    return rounds_from<n + 1, second_pair>(d, round(d, w, keys[n][0], keys[n][1]), keys);
}

template <bool second_pair>
void draw_any(const TileCall& c) {
  const int64_t n = lanes_of(c);
  const D d;
  for (int64_t r = 0; r < c.rows; ++r) {
    uint64_t* out = dst_row_of<uint64_t>(c, r);
    for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto at = [&](int k) { return hn::LoadU(d, row_of<uint64_t>(c, k, r) + j); };
      Keys keys;
      schedule(d, at(4), at(5), keys);
      hn::StoreU(rounds_from<0, second_pair>(d, {at(0), at(1), at(2), at(3)}, keys), d, out + j);
    }
  }
}

// Of one counter word that varies: in the first round one product does not, and in the second the other.
template <bool second_pair>
void draw_plain(const TileCall& c) {
  const int64_t n = lanes_of(c);
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor0 = hn::Set(d, static_cast<uint64_t>(philox_factors[0]));
  const V factor1 = hn::Set(d, static_cast<uint64_t>(philox_factors[1]));
  for (int64_t r = 0; r < c.rows; ++r) {
    const auto same = [&](int k) { return hn::Set(d, *row_of<uint64_t>(c, k, r)); };
    Keys keys;
    schedule(d, same(4), same(5), keys);
    const Words first = round(d, {same(0), same(1), hn::Zero(d), same(3)}, keys[0][0], keys[0][1]);
    const V mixed = hn::Xor(same(1), keys[0][0]);
    const Words second = round(d, {hn::Zero(d), hn::Zero(d), first.w2, first.w3}, keys[1][0], keys[1][1]);
    const auto one = [&](V element) {
      const V b = product(element, factor1), a = product(hn::Xor(hn::ShiftRight<32>(b), mixed), factor0);
      const Words w{hn::Xor(second.w0, b), second.w1, hn::Xor(second.w2, hn::ShiftRight<32>(a)), a};
      return rounds_from<2, second_pair>(d, w, keys);
    };
    const uint64_t* in = row_of<uint64_t>(c, 2, r);
    uint64_t* out = dst_row_of<uint64_t>(c, r);
    for (int64_t j = 0; j < n; j += 2 * lanes) {
      const V x = one(hn::LoadU(d, in + j)), y = one(hn::LoadU(d, in + j + lanes));
      hn::StoreU(x, d, out + j);
      hn::StoreU(y, d, out + j + lanes);
    }
  }
}

template <bool high>
void word_as_integer(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint64_t* in = row_of<uint64_t>(c, 0, r);
    int64_t* out = dst_row_of<int64_t>(c, r);
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) out[j] = static_cast<int64_t>(high ? in[j] >> 32 : in[j] & low_32_bits);
  }
}

// Rounded once: the upper sixteen bits' number is exact, and so is that of the lower ones.
template <bool high>
void word_as_float(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const uint64_t* in = row_of<uint64_t>(c, 0, r);
    float* out = dst_row_of<float>(c, r);
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) {
      const auto word = static_cast<uint32_t>(high ? in[j] >> 32 : in[j]);
      const auto upper = static_cast<float>(static_cast<int32_t>(word >> 16)) * 65536.0f;
      out[j] = upper + static_cast<float>(static_cast<int32_t>(word & 0xffff));
    }
  }
}

TileFn find_draw(bool second_pair, bool plain) {
  if (second_pair) return plain ? draw_plain<true> : draw_any<true>;
  return plain ? draw_plain<false> : draw_any<false>;
}
TileFn find_word(bool high, Scalar type) {
  if (type == Scalar::f32) return high ? word_as_float<true> : word_as_float<false>;
  return high ? word_as_integer<true> : word_as_integer<false>;
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::loops::tiles {
HWY_EXPORT(find_draw);
HWY_EXPORT(find_word);

TileFn draw_fn(bool second_pair, bool plain) { return HWY_DYNAMIC_DISPATCH(find_draw)(second_pair, plain); }
TileFn drawn_word_fn(bool high, Scalar type) { return HWY_DYNAMIC_DISPATCH(find_word)(high, type); }

}  // namespace npusim::cpu::loops::tiles
#endif
