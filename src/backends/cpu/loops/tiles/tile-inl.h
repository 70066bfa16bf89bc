// Loops over the rows of a tile, compiled once per instruction set. Plain loops: the compiler vectorises them.
#if defined(NPUSIM_CPU_LOOPS_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSIM_CPU_LOOPS_TILE_INL_H
#undef NPUSIM_CPU_LOOPS_TILE_INL_H
#else
#define NPUSIM_CPU_LOOPS_TILE_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/loops/tiles/tile.h"

#ifndef NPUSIM_IVDEP
#ifdef __clang__
#define NPUSIM_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define NPUSIM_IVDEP _Pragma("GCC ivdep")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::loops::tiles::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
const T* row_of(const TileCall& c, int k, int64_t row) {
  return static_cast<const T*>(c.in[k]) + row * c.in_row[k];
}
template <class T>
T* dst_row_of(const TileCall& c, int64_t row) {
  return static_cast<T*>(c.dst) + row * c.dst_row;
}

// How many lanes to run over. Held by the loop, not read from the call: stores of bytes and of int64_t might change it
// for all the compiler knows, which then vectorises nothing.
inline int64_t lanes_of(const TileCall& c) { return c.n / lane_block * lane_block; }

template <class F, class In, class Out>
void unary(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const In* a = row_of<In>(c, 0, r);
    Out* out = dst_row_of<Out>(c, r);
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) out[j] = static_cast<Out>(F::of(a[j]));
  }
}

template <class F, class In, class Out, bool sa, bool sb>
void binary(const TileCall& c) {
  const int64_t n = lanes_of(c);
  for (int64_t r = 0; r < c.rows; ++r) {
    const In *a = row_of<In>(c, 0, r), *b = row_of<In>(c, 1, r);
    Out* out = dst_row_of<Out>(c, r);
    const In fa = *a, fb = *b;
    NPUSIM_IVDEP
    for (int64_t j = 0; j < n; ++j) out[j] = static_cast<Out>(F::of(sa ? fa : a[j], sb ? fb : b[j]));
  }
}

template <class F, class In, class Out>
TileFn by_scalars(unsigned scalars) {
  switch (scalars) {
    case 0:
      return binary<F, In, Out, false, false>;
    case 1:
      return binary<F, In, Out, true, false>;
    case 2:
      return binary<F, In, Out, false, true>;
    default:
      return binary<F, In, Out, true, true>;
  }
}

// Wrapping on integers; minima and maxima that propagate NaN.
struct Plus {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Minus {
  template <class T>
  static T of(T a, T b) {
    return a - b;
  }
};
struct Times {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Lesser {
  static int64_t of(int64_t a, int64_t b) { return a < b ? a : b; }
  static double of(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }
};
struct Greater {
  static int64_t of(int64_t a, int64_t b) { return a > b ? a : b; }
  static double of(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }
};
struct WrapPlus {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct WrapMinus {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct WrapTimes {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

}  // namespace
}  // namespace npusim::cpu::loops::tiles::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
