// Factors, tables of twiddles, and the order of passes.
#include "backends/cpu/fourier/transform.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernel/facts/fourier.h"

namespace npusim::cpu::fourier {
namespace {

// Of 2π · quarters / (4 · size), of numbers in [0, 5 · size).
double sine(int64_t quarters, int64_t size) {
  quarters %= 4 * size;
  const bool down = quarters > 2 * size;
  if (down) quarters = 4 * size - quarters;
  const int64_t near = std::min(quarters, 2 * size - quarters);  // from the closest zero
  // As near to a whole number of quarters as either function is exact.
  const double half_pi = std::numbers::pi / 2 / static_cast<double>(size);
  const double found = 2 * near <= size ? std::sin(half_pi * static_cast<double>(near))
                                        : std::cos(half_pi * static_cast<double>(size - near));
  return down ? -found : found;
}

// Radixes of the passes of a length of 1 and more, the odd ones first; what is left is 1 if its primes are small.
std::vector<int64_t> radixes_of(int64_t length, int64_t& left) {
  std::vector<int64_t> radixes;
  left = length;
  for (int64_t p = 3; p <= largest_radix; p += 2)
    for (; left % p == 0; left /= p) radixes.push_back(p);
  int twos = 0;
  for (; left % 2 == 0; left /= 2) ++twos;
  // Passes of 8, and of 4 rather than of 2.
  for (; twos >= 5 || twos == 3; twos -= 3) radixes.push_back(8);
  for (; twos >= 2; twos -= 2) radixes.push_back(4);
  if (twos == 1) radixes.push_back(2);
  return radixes;
}

template <class T>
std::vector<Stage<T>> stages_of(int64_t length) {
  int64_t left = 0, stride = 1, n = length;
  std::vector<Stage<T>> stages;
  for (const int64_t radix : radixes_of(length, left)) {
    Stage<T> stage{radix, n / radix, stride, {}, {}};
    for (int64_t p = 0; p < stage.blocks; ++p)
      for (int64_t j = 1; j < radix; ++j) {
        const Twiddle factor = twiddle(p * j, n);
        stage.twiddles.insert(stage.twiddles.end(), {static_cast<T>(factor.cos), static_cast<T>(-factor.sin)});
      }
    if (radix > 5 && radix != 8)
      for (int64_t k = 0; k < radix; ++k) {
        const Twiddle root = twiddle(k, radix);
        stage.roots.insert(stage.roots.end(), {static_cast<T>(root.cos), static_cast<T>(root.sin)});
      }
    stages.push_back(std::move(stage));
    n /= radix, stride *= radix;
  }
  return stages;
}

bool has_passes(int64_t length) {
  int64_t left = 0;
  radixes_of(length, left);
  return left == 1;
}

}  // namespace

Twiddle twiddle(int64_t numerator, int64_t size) {
  return {sine(4 * numerator + size, size), sine(4 * numerator, size)};
}

template <class T>
Transform<T>::Transform(int64_t length, bool rows) : length_(length) {
  if (!has_passes(length))
    plan_convolution(rows);
  else if (stages_ = stages_of<T>(length); rows)
    plan_two_lengths();
}

template <class T>
void Transform<T>::plan_two_lengths() {
  // As near to the root as factors go; the second is a multiple of the lanes where it can be.
  int64_t best = 0;
  for (int64_t n = 1; n * n <= length_; ++n)
    if (length_ % n == 0) best = n;
  if (best < std::max<int64_t>(lanes_ / 2, 2)) return;
  first_ = length_ / best, second_ = best;
  if (second_ % lanes_ == 0 || first_ % lanes_ != 0) std::swap(first_, second_);
  first_stages_ = stages_of<T>(first_), second_stages_ = stages_of<T>(second_);
  const int64_t ld = padded(second_);
  twiddle_cos_.assign(static_cast<size_t>(first_ * ld), 0), twiddle_sin_ = twiddle_cos_;
  for (int64_t k = 0; k < first_; ++k)
    for (int64_t j = 0; j < second_; ++j) {
      const Twiddle factor = twiddle(k * j, length_);
      twiddle_cos_[static_cast<size_t>(k * ld + j)] = static_cast<T>(factor.cos);
      twiddle_sin_[static_cast<size_t>(k * ld + j)] = static_cast<T>(-factor.sin);
    }
}

template <class T>
void Transform<T>::plan_convolution(bool rows) {
  const int64_t n = length_, size = smooth_length(2 * n - 1);
  inner_ = std::make_unique<Transform>(size, rows);
  const Transform<double> exact(size, true);
  std::vector<double> re(static_cast<size_t>(size + 64), 0), im = re;
  std::vector<double> scratch(static_cast<size_t>(exact.row_scratch()));
  for (int64_t j = 0; j < n; ++j) {
    const auto square = static_cast<int64_t>(static_cast<unsigned __int128>(j) * static_cast<uint64_t>(j) %
                                             static_cast<uint64_t>(2 * n));
    const Twiddle factor = twiddle(square, 2 * n);
    chirp_cos_.push_back(static_cast<T>(factor.cos)), chirp_sin_.push_back(static_cast<T>(-factor.sin));
    for (const int64_t at : {j, (size - j) % size})
      re[static_cast<size_t>(at)] = factor.cos, im[static_cast<size_t>(at)] = factor.sin;
  }
  exact.row(re.data(), im.data(), scratch.data());
  for (int64_t k = 0; k < size; ++k) {
    filter_cos_.push_back(static_cast<T>(re[static_cast<size_t>(k)] / static_cast<double>(size)));
    filter_sin_.push_back(static_cast<T>(im[static_cast<size_t>(k)] / static_cast<double>(size)));
  }
}

template <class T>
int64_t Transform<T>::columns_scratch() const {
  return is_convolution() ? 2 * inner_->length_ * lanes_ + inner_->columns_scratch() : 4 * length_ * lanes_;
}

template <class T>
int64_t Transform<T>::row_scratch() const {
  if (is_convolution()) return 2 * (inner_->length_ + lanes_) + inner_->row_scratch();
  if (first_ == 0) return 2 * length_ * lanes_ + columns_scratch();
  return 2 * (first_ * padded(second_) + second_ * padded(first_)) + 4 * std::max(first_, second_) * lanes_;
}

template <class T>
void Transform<T>::columns(Planar<T> z, T* scratch) const {
  if (!is_convolution()) return f_.transform(stages_, z, z, length_, lanes_, scratch);
  const int64_t size = inner_->length_, room = size * lanes_;
  const Planar<T> wide{scratch, scratch + room, lanes_}, exchanged{wide.im, wide.re, lanes_};
  T* rest = scratch + 2 * room;
  f_.rotate(z, length_, lanes_, chirp_cos_.data(), chirp_sin_.data(), false);
  copy_columns(z, wide);
  for (T* part : {wide.re, wide.im}) std::fill(part + length_ * lanes_, part + room, T{});
  inner_->columns(wide, rest);
  f_.rotate(wide, size, lanes_, filter_cos_.data(), filter_sin_.data(), false);
  inner_->columns(exchanged, rest);  // back
  copy_columns(wide, z);
  f_.rotate(z, length_, lanes_, chirp_cos_.data(), chirp_sin_.data(), false);
}

template <class T>
void Transform<T>::copy_columns(const Planar<T>& from, const Planar<T>& to) const {
  for (int64_t j = 0; j < length_; ++j) {
    std::copy_n(from.re + j * from.ld, lanes_, to.re + j * to.ld);
    std::copy_n(from.im + j * from.ld, lanes_, to.im + j * to.ld);
  }
}

template <class T>
void Transform<T>::row(T* re, T* im, T* scratch) const {
  if (is_convolution()) {
    const int64_t size = inner_->length_, room = size + lanes_;
    T *wide_re = scratch, *wide_im = scratch + room, *rest = scratch + 2 * room;
    const auto rotate = [&](T* x, T* y, int64_t n, const std::vector<T>& cos, const std::vector<T>& sin) {
      f_.rotate({x, y, 0}, 1, n / lanes_ * lanes_, cos.data(), sin.data(), true);
      for (auto j = static_cast<size_t>(n / lanes_ * lanes_); j < static_cast<size_t>(n); ++j) {
        const T a = x[j], b = y[j];
        x[j] = a * cos[j] - b * sin[j], y[j] = a * sin[j] + b * cos[j];
      }
    };
    rotate(re, im, length_, chirp_cos_, chirp_sin_);
    std::fill(std::copy_n(re, length_, wide_re), wide_re + room, T{});
    std::fill(std::copy_n(im, length_, wide_im), wide_im + room, T{});
    inner_->row(wide_re, wide_im, rest);
    rotate(wide_re, wide_im, size, filter_cos_, filter_sin_);
    inner_->row(wide_im, wide_re, rest);
    std::copy_n(wide_re, length_, re), std::copy_n(wide_im, length_, im);
    return rotate(re, im, length_, chirp_cos_, chirp_sin_);
  }
  if (first_ == 0) {
    T *one_re = scratch, *one_im = scratch + length_ * lanes_;
    std::fill(scratch, scratch + 2 * length_ * lanes_, T{});
    for (int64_t j = 0; j < length_; ++j) one_re[j * lanes_] = re[j], one_im[j * lanes_] = im[j];
    columns({one_re, one_im, lanes_}, scratch + 2 * length_ * lanes_);
    for (int64_t j = 0; j < length_; ++j) re[j] = one_re[j * lanes_], im[j] = one_im[j * lanes_];
    return;
  }
  const int64_t ld = padded(second_), other_ld = padded(first_), room = first_ * ld, other = second_ * other_ld;
  const Planar<T> begun{scratch, scratch + room, ld},
      transposed{scratch + 2 * room, scratch + 2 * room + other, other_ld};
  T* rest = scratch + 2 * (room + other);
  f_.transform(first_stages_, {re, im, second_}, begun, first_, ld, rest);
  f_.rotate(begun, first_, ld, twiddle_cos_.data(), twiddle_sin_.data(), true);
  f_.transpose(begun.re, ld, first_, second_, transposed.re, other_ld, T{1});
  f_.transpose(begun.im, ld, first_, second_, transposed.im, other_ld, T{1});
  for (int64_t j = 0; j < second_; ++j)  // columns that are none
    for (int64_t l = first_; l < other_ld; ++l) transposed.re[j * other_ld + l] = transposed.im[j * other_ld + l] = 0;
  const bool dense = other_ld == first_;
  f_.transform(second_stages_, transposed, dense ? Planar<T>{re, im, first_} : transposed, second_, other_ld, rest);
  for (int64_t k = 0; k < second_ && !dense; ++k) {
    std::copy_n(transposed.re + k * other_ld, first_, re + k * first_);
    std::copy_n(transposed.im + k * other_ld, first_, im + k * first_);
  }
}

template class Transform<float>;
template class Transform<double>;

}  // namespace npusim::cpu::fourier
