// Fourier transforms of columns, as many side by side as a vector has lanes, and the passes before and behind them.
#pragma once
#include <cstdint>
#include <vector>

namespace npusim::cpu::fourier {

constexpr int64_t largest_radix = 31;

// One pass of a Stockham transform (Stockham 1966): of `blocks` · `stride` butterflies of `radix` elements each. Where
// all passes before it have made `stride` transforms of what is left, element q + stride · (p + blocks · k) of the
// input is the k-th of a butterfly, and q + stride · (radix · p + j) of the output the j-th of what it gives.
template <class T>
struct Stage {
  int64_t radix = 2, blocks = 1, stride = 1;
  std::vector<T> twiddles;  // [p][j − 1][cos, −sin] of 2π p j / (radix · blocks)
  std::vector<T> roots;     // of a radix without code of its own: [k][cos, sin] of 2π k / radix
};

// Complex columns: element j of column l at j · ld + l.
template <class T>
struct Planar {
  T* re = nullptr;
  T* im = nullptr;
  int64_t ld = 0;
};

// What there is for the machine's instruction set. Columns side by side are a multiple of `lanes`.
template <class T>
struct LaneFunctions {
  int64_t lanes;
  // Σ z[j] e^(−2πi j k / n) of each column; `to` may be `from`. `scratch` has room for 4 · n · lanes elements.
  void (*transform)(const std::vector<Stage<T>>& stages, Planar<T> from, Planar<T> to, int64_t n, int64_t columns,
                    T* scratch);
  // to[c · to_ld + r] = scale · from[r · from_ld + c]
  void (*transpose)(const T* from, int64_t from_ld, int64_t rows, int64_t columns, T* to, int64_t to_ld, T scale);
  // z[j][l] times cos[j] + i sin[j], or where columns differ times those of [j][l].
  void (*rotate)(Planar<T> z, int64_t n, int64_t columns, const T* cos, const T* sin, bool columns_differ);
  // Of a real signal of 2m elements, taken for m complex ones: from the transform of those to the first m + 1 bins of
  // the signal's, in place, and back, times two. cos, sin: of −2πk / 2m for k up to m/2. Of as many columns as lanes,
  // or of one row.
  void (*spectrum_of_halves)(Planar<T> z, int64_t m, const T* cos, const T* sin, bool one_row);
  void (*halves_of_spectrum)(Planar<T> z, int64_t m, const T* cos, const T* sin, bool one_row);
  // Of one row: pairs[2i], pairs[2i + 1] and re[i], im[i].
  void (*split_pairs)(const T* pairs, int64_t count, T* re, T* im);
  void (*join_pairs)(const T* re, const T* im, int64_t count, T scale, T* pairs);
};

template <class T>
const LaneFunctions<T>& lane_functions();
template <>
const LaneFunctions<float>& lane_functions<float>();
template <>
const LaneFunctions<double>& lane_functions<double>();

}  // namespace npusim::cpu::fourier
