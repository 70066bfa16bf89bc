// Random numbers as kernel expressions: Philox4x32-10 (Salmon et al., 2011), a function of a key and a counter.
//
// The key is the seed. The counter is which of the generator's calls draws, in its low 64 bits, and which element is
// drawn, in its high ones: a number depends on nothing else, whatever device, fusion or number of threads computes it.
// These are the counters of PyTorch's generator on CUDA, where a thread draws one element.
#pragma once
#include <array>

#include "kernel/builder.h"

namespace npusim {

inline constexpr size_t philox_rounds = 10;
inline constexpr int64_t low_32_bits = 0xffffffff;
// What words 0 and 2 are multiplied by, and what is added to each half of the key before every round but the first.
inline constexpr std::array<int64_t, 2> philox_factors{0xD2511F53, 0xCD9E8D57};
inline constexpr std::array<int64_t, 2> philox_steps{0x9E3779B9, 0xBB67AE85};

// A generator's state: the seed, and how many calls have drawn since it was set.
inline constexpr int64_t generator_size = 2;
// Calls from here on draw tokens, not what a model draws itself.
inline constexpr int64_t sampling_calls = int64_t{1} << 62;

// One element's random words, and what is made of them.
class Draw {
 public:
  // i64 each: the generator's seed, which call draws, and which of its elements, all of them below `elements`.
  Draw(KernelBuilder& k, Ex seed, Ex call, Ex element, int64_t elements);

  Ex word(int nth) const { return words_[static_cast<size_t>(nth)]; }  // of four: 32 bits, i64
  // Uniform in (0, 1], a float32, or a float64 of 53 bits. The same bits in the reference and on every device.
  Ex uniform(Scalar type) const;
  // Normal with mean 0 and variance 1, by Box and Muller.
  Ex normal(Scalar type) const;
  // Exponential with rate 1, never 0.
  Ex exponential(Scalar type) const;
  // Uniform among 0 … range − 1, for 0 < range.
  Ex below(int64_t range) const;
  // True with this probability: never for 0, always for 1.
  Ex chance(double probability) const;

 private:
  KernelBuilder& k_;
  std::array<Ex, 4> words_;
};

// Results are drawn in float64 where they are stored so, else in float32.
inline Scalar drawn_type(DType dtype) { return dtype == DType::f64 ? Scalar::f64 : Scalar::f32; }

}  // namespace npusim
