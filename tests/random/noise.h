// How rounding errors of one call are imitated.
#pragma once
#include <random>

#include "random/eager.h"

namespace npusim::test {

// What a call's kernels do to precision.
struct CallTraits {
  bool exact = true;        // moves, selects and compares: no result is rounded
  bool weighs = false;      // attention
  bool picks = false;       // the larger or smaller number: of two zeros, any
  bool casts = false;       // floats to integers
  bool fades = false;       // exponentials, which may be too small to count
  bool gathers = false;     // at computed places
  bool contracts = false;   // a product or convolution
  bool multiplies = false;  // its terms are factors
  bool sums = false;        // its operands may have been rounded, and are added up in another order
  double terms = 1;         // added up for one result
  int64_t window = 0;       // a convolution that may be computed by tiles: how far an element's error comes from
};
CallTraits traits_of(const Lowering& lowering);

class NoiseSource {
 public:
  explicit NoiseSource(const Noise& noise) : noise_(noise), random_(noise.seed * 0x9e3779b97f4a7c15ULL + 7) {}
  // Every rounding inside the kernel, off by as much at all of its points.
  Kernel disturbed(const Kernel& kernel);
  // Operands of a sum: each off by what the sum's rounding errors come to.
  void disturb_operand(HostTensor& tensor, const CallTraits& traits);
  void disturb_result(HostTensor& tensor, const CallTraits& traits);
  // A sum or product of what is finite that overflows does so in any order. `overflows`: a part of it may.
  void disturb_overflow(HostTensor& result, bool finite, bool overflows);
  // Exponentials below the normal numbers may count as 0, and with them what they weigh, of which `largest` is one.
  void disturb_faded(HostTensor& result, double largest);
  // Weights of attention below the normal numbers may count as 0; `largest` of what they weigh.
  void disturb_lost_weights(HostTensor& result, double largest);
  // What one reader sees of a computed value: `narrow` ones may have been stored in 16 bits for it; the last digits of
  // others may not have been rounded (an fma), or were computed once more for it.
  bool sees_other() { return noise_.apart && random_() % 2; }
  void see_other(HostTensor& tensor, bool narrow);
  // Integers made from floats that do not fit are any.
  void disturb_casts(const HostTensor& from, HostTensor& to);

 private:
  // An error between 0.4 and 1 (times the scale), of either sign.
  double error() {
    const double sign = (random_() % 2 != 0) != noise_.opposite ? 1 : -1;
    return sign * noise_.scale * std::uniform_real_distribution<double>(0.4, 1)(random_);
  }
  double uniform() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  void disturb(HostTensor& tensor, double steps);
  Noise noise_;
  std::mt19937_64 random_;
};

}  // namespace npusim::test
