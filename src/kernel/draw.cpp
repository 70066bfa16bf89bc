// Ten rounds of two products of 32 bits, and distributions as PyTorch makes them of the words.
#include "kernel/draw.h"

#include <cmath>
#include <numbers>

namespace npusim {
namespace {

Ex low(Ex x) { return bit_and(x, literal(x, low_32_bits)); }
Ex high(Ex x) { return low(shr(x, literal(x, int64_t{32}))); }

std::array<Ex, 4> philox(std::array<Ex, 4> counter, Ex key0, Ex key1) {
  for (size_t round = 0; round < philox_rounds; ++round) {
    if (round > 0) key0 = low(key0 + philox_steps[0]), key1 = low(key1 + philox_steps[1]);
    const Ex a = counter[0] * philox_factors[0], b = counter[2] * philox_factors[1];
    counter = {bit_xor(bit_xor(high(b), counter[1]), key0), low(b), bit_xor(bit_xor(high(a), counter[3]), key1),
               low(a)};
  }
  return counter;
}

// How many of the 2^32 words give a uniform number that is not above `probability`.
int64_t words_within(double probability) {
  const auto uniform = [](int64_t word) { return static_cast<float>(word) * 0x1p-32f + 0x1p-33f; };
  int64_t none = 0, all = low_32_bits + 1;  // the answer lies in between
  while (none < all) {
    const int64_t middle = none + (all - none) / 2;
    if (static_cast<double>(uniform(middle)) <= probability)
      none = middle + 1;
    else
      all = middle;
  }
  return none;
}

}  // namespace

Draw::Draw(KernelBuilder& k, Ex seed, Ex call, Ex element, int64_t elements) : k_(k) {
  const Ex element_high = elements > low_32_bits ? high(element) : k.integer(0);
  words_ = philox({low(call), high(call), low(element), element_high}, low(seed), high(seed));
}

Ex Draw::uniform(Scalar type) const {
  if (type == Scalar::f64) {
    const Ex bits = bit_xor(word(0), shl(word(1), literal(word(1), int64_t{21})));
    return k_.cast(bits, Scalar::f64) * 0x1p-53 + 0x1p-54;
  }
  return k_.single(k_.single(k_.cast(word(0), Scalar::f32)) * 0x1p-32 + 0x1p-33);
}

Ex Draw::normal(Scalar type) const {
  if (type == Scalar::f64) {
    const Ex bits = bit_xor(word(2), shl(word(3), literal(word(3), int64_t{21})));
    const Ex angle = k_.cast(bits, Scalar::f64) * 0x1p-53 + 0x1p-54;
    return sin(angle * (2 * std::numbers::pi)) * sqrt(log(uniform(type)) * -2.0);
  }
  const Ex angle = k_.single(k_.single(k_.cast(word(1), Scalar::f32)) * 0x1p-32 + 0x1p-33);
  return sin(angle * (2 * std::numbers::pi)) * sqrt(log(uniform(type)) * -2.0);
}

Ex Draw::exponential(Scalar type) const {
  const double half_step = type == Scalar::f64 ? 0x1p-53 : 0x1p-24;
  const Ex x = uniform(type);
  return select(x >= 1 - half_step, half_step, -log(x));
}

// The remainder of 32 bits, or of 64 where the range asks for them, as an unsigned number.
Ex Draw::below(int64_t range) const {
  if (range < int64_t{1} << 28) return irem(word(0), k_.integer(range));
  const Ex divisor = k_.integer(range);
  const Ex x = bit_or(shl(word(0), k_.integer(32)), word(1));  // its top bit is the sign
  const Ex half = bit_and(shr(x, k_.integer(1)), k_.integer(INT64_MAX));
  const Ex rest = x - idiv(half, divisor) * 2 * divisor;  // below twice the range
  return select(rest < 0 || rest >= divisor, rest - divisor, rest);
}

Ex Draw::chance(double probability) const {
  const int64_t words = words_within(probability);
  return word(0) < words;
}

}  // namespace npusim
