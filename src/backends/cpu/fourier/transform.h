// How one length is transformed: by passes, by two shorter lengths, or as a convolution.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/fourier/lanes.h"

namespace npusim::cpu::fourier {

// The transform Σ z[j] e^(−2πi j k / n), of as many columns side by side as a vector has lanes, or of one row.
template <class T>
class Transform {
 public:
  // Of columns only, or of rows too.
  Transform(int64_t length, bool rows);

  int64_t length() const { return length_; }
  // Elements of scratch.
  int64_t columns_scratch() const;
  int64_t row_scratch() const;
  // In place, of as many columns as lanes.
  void columns(Planar<T> z, T* scratch) const;
  // In place, of `length` elements with room for a vector behind them.
  void row(T* re, T* im, T* scratch) const;

 private:
  void copy_columns(const Planar<T>& from, const Planar<T>& to) const;  // the first `length` elements
  void plan_convolution(bool rows);
  void plan_two_lengths();
  bool is_convolution() const { return inner_ != nullptr; }
  int64_t padded(int64_t n) const { return (n + lanes_ - 1) / lanes_ * lanes_; }

  const LaneFunctions<T>& f_ = lane_functions<T>();
  int64_t lanes_ = f_.lanes, length_;
  std::vector<Stage<T>> stages_;
  // A row is [first, second] and its transform [second, first]: columns are transformed, rotated, and, in the other
  // order around, transformed again.
  int64_t first_ = 0, second_ = 0;  // 0: a row is a column among empty ones
  std::vector<Stage<T>> first_stages_, second_stages_;
  std::vector<T> twiddle_cos_, twiddle_sin_;  // [first, padded second]
  // Bluestein 1970: k n = (k² + n² − (k − n)²) / 2. The signal rotated by n²/2, convolved with rotations by −n²/2.
  std::unique_ptr<Transform> inner_;
  std::vector<T> chirp_cos_, chirp_sin_, filter_cos_, filter_sin_;  // filter: its transform, divided by its length
};

extern template class Transform<float>;
extern template class Transform<double>;

// Cosine and sine of 2π numerator / size, exact where that is a whole number of quarter turns.
struct Twiddle {
  double cos, sin;
};
Twiddle twiddle(int64_t numerator, int64_t size);

}  // namespace npusim::cpu::fourier
