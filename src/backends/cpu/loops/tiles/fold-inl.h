// Folds of a tile along its columns or rows, of any lanes that the compiler makes vectors of. Compiled once per
// instruction set.
#if defined(NPUSIM_CPU_LOOPS_TILE_FOLD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_CPU_LOOPS_TILE_FOLD_INL_H
#undef NPUSIM_CPU_LOOPS_TILE_FOLD_INL_H
#else
#define NPUSIM_CPU_LOOPS_TILE_FOLD_INL_H
#endif

#include "backends/cpu/loops/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {

template <class T, class F>
T join(T a, T b) {
  return static_cast<T>(F::of(a, b));
}

// Short rows one behind the other, along their columns.
template <class T, class F, int columns>
void fold_few(const TileCall& c) {
  const T* a = row_of<T>(c, 0, 0);
  T* out = static_cast<T*>(c.dst);
  const int64_t rows = c.rows;
  for (int64_t r = 0; r < rows; ++r) {
    T sum = out[r];
    for (int j = 0; j < columns; ++j) sum = join<T, F>(sum, a[r * columns + j]);
    out[r] = sum;
  }
}
template <class T, class F>
bool fold_few(const TileCall& c) {
  constexpr TileFn fns[] = {fold_few<T, F, 2>, fold_few<T, F, 3>, fold_few<T, F, 4>, fold_few<T, F, 5>,
                            fold_few<T, F, 6>, fold_few<T, F, 7>, fold_few<T, F, 8>};
  if (c.in_row[0] != c.columns || c.dst_row != 1 || c.columns < 2 || c.columns > 8) return false;
  fns[c.columns - 2](c);
  return true;
}

// Of a multiple of 8 elements of 64 bits. Of narrow ones the compiler makes vectors of the plain loop; of this one GCC
// 12 makes wrong ones.
template <class T, class F>
T fold_eights(const T* a, int64_t count) {
  T sums[8];
  for (int64_t k = 0; k < 8; ++k) sums[k] = a[k];
  for (int64_t j = 8; j < count; j += 8)
    for (int64_t k = 0; k < 8; ++k) sums[k] = join<T, F>(sums[k], a[j + k]);
  for (int64_t k = 1; k < 8; ++k) sums[0] = join<T, F>(sums[0], sums[k]);
  return sums[0];
}

// Rows of one block of lanes, whose sums stay in registers.
template <class T, class F>
void fold_block(const TileCall& c) {
  T sums[lane_block];
  T* out = static_cast<T*>(c.dst);
  for (int64_t j = 0; j < lane_block; ++j) sums[j] = out[j];
  const T* a = row_of<T>(c, 0, 0);
  const int64_t rows = c.rows, step = c.in_row[0];
  for (int64_t r = 0; r < rows; ++r, a += step)
    for (int64_t j = 0; j < lane_block; ++j) sums[j] = join<T, F>(sums[j], a[j]);
  for (int64_t j = 0; j < lane_block; ++j) out[j] = sums[j];
}

template <class T, class F, Fold form>
void fold(const TileCall& c) {
  const int64_t n = lanes_of(c), columns = c.columns, whole = sizeof(T) == 8 ? columns / 8 * 8 : 0;
  if (form == Fold::columns && fold_few<T, F>(c)) return;
  if (form == Fold::rows && n == lane_block) return fold_block<T, F>(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* a = row_of<T>(c, 0, r);
    T* out = static_cast<T*>(c.dst) + (form == Fold::rows ? 0 : r * c.dst_row);
    if constexpr (form == Fold::columns) {
      T sum = *out;
      if constexpr (sizeof(T) == 8)
        if (whole) sum = join<T, F>(sum, fold_eights<T, F>(a, whole));
      for (int64_t j = whole; j < columns; ++j) sum = join<T, F>(sum, a[j]);
      *out = sum;
    } else {
      NPUSIM_IVDEP
      for (int64_t j = 0; j < n; ++j) out[j] = join<T, F>(out[j], a[j]);
    }
  }
}

template <class T, class F>
TileFn choose_fold(Fold form) {
  if (form == Fold::columns) return fold<T, F, Fold::columns>;
  return form == Fold::rows ? fold<T, F, Fold::rows> : fold<T, F, Fold::none>;
}

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
