// Widening, transposing and the register tile of the matrix product, compiled once per instruction set.
#include "backends/cpu/product/simd.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/simd.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/finish-inl.h"
#include "backends/cpu/product/pairing-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product {
namespace HWY_NAMESPACE {

constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(F()));
// Vectors of sums: 6 x 4 or 12 x 2 with 32 registers, 6 x 2 with 16.
constexpr bool has_many = HWY_TARGET == HWY_AVX3;
constexpr int wide_rows = 6, wide_vectors = has_many ? 4 : 2;
constexpr int tall_rows = has_many ? 12 : 6, tall_vectors = 2;
constexpr int64_t blocked = 0, any_stride = -1;  // other than strides of rows

// An exponent of all ones makes an infinity or a NaN.
template <typename T, T exponent>
HWY_INLINE bool finite(const T* x, int64_t stride, int64_t rows, int64_t columns) {
  const hn::ScalableTag<T> d;
  constexpr int64_t step = static_cast<int64_t>(hn::MaxLanes(d));
  const auto ones = hn::Set(d, exponent);
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    auto most = hn::Zero(d);
    int64_t n = 0;
    for (; n + step <= columns; n += step) most = hn::Max(most, hn::And(hn::LoadU(d, x + n), ones));
    if (!hn::AllFalse(d, hn::Eq(most, ones))) return false;
    for (; n < columns; ++n)
      if ((x[n] & exponent) == exponent) return false;
  }
  return true;
}

bool all_finite(DType dtype, const void* x, int64_t stride, int64_t rows, int64_t columns) {
  if (dtype == DType::f32) return finite<uint32_t, 0x7F800000>(static_cast<const uint32_t*>(x), stride, rows, columns);
  const auto* half = static_cast<const uint16_t*>(x);
  return dtype == DType::bf16 ? finite<uint16_t, 0x7F80>(half, stride, rows, columns)
                              : finite<uint16_t, 0x7C00>(half, stride, rows, columns);
}

template <class Type>
HWY_INLINE void widen_row(const typename Type::T* from, int64_t count, float* dst) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(Type::load(from + i), F(), dst + i);
  if (i < count && count >= lanes) {  // some of the last vector again
    hn::StoreU(Type::load(from + count - lanes), F(), dst + count - lanes);
    return;
  }
  for (; i < count; ++i) dst[i] = Type::one(from[i]);
}

void widen(DType dtype, const void* src, int64_t count, float* dst) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    widen_row<Type>(static_cast<const typename Type::T*>(src), count, dst);
  });
}

void widen_rows(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* from = static_cast<const typename Type::T*>(src);
    for (int64_t r = 0; r < rows; ++r) widen_row<Type>(from + r * stride, cols, dst + r * ld);
  });
}

// Column n of the rows a, b, c and d goes to the four floats at block + n % 4 · lanes + n / 4 · 4.
HWY_INLINE void transpose_four(VF a, VF b, VF c, VF d, float* HWY_RESTRICT block) {
#if HWY_TARGET == HWY_SCALAR
  block[0] = hn::GetLane(a), block[1] = hn::GetLane(b), block[2] = hn::GetLane(c), block[3] = hn::GetLane(d);
#else
  VF to[4];
  transpose_blocks(a, b, c, d, to);
  for (int i = 0; i < 4; ++i) hn::Store(to[i], F(), block + i * lanes);
#endif
}

// As many rows as a vector has lanes, at least four columns.
template <class Type>
HWY_INLINE void transpose_lanes(const typename Type::T* from, int64_t stride, int64_t cols, float* dst, int64_t ld) {
  for (int64_t c = 0; c < cols; c += 4) {
    const int64_t at = std::min(c, cols - 4);  // the last four, some of them again
    VF column[4];
    load_columns<Type>([=](int64_t i) HWY_ATTR { return from + i * stride + at; }, column);
    for (int64_t n = 0; n < 4; ++n) hn::StoreU(column[n], F(), dst + (at + n) * ld);
  }
}

void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* from = static_cast<const typename Type::T*>(src);
    const hn::CappedTag<float, 4> four;
    for (; rows >= lanes && cols >= 4; rows -= lanes, from += lanes * stride, dst += lanes)
      transpose_lanes<Type>(from, stride, cols, dst, ld);
    HWY_ALIGN float block[4 * lanes];
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes)
      for (int64_t r = 0; r < rows; r += 4) {
        const int64_t there = std::min<int64_t>(4, rows - r);
        auto row = [&](int64_t i) {
          const auto* at = from + (r + std::min(i, there - 1)) * stride + c;
          __builtin_prefetch(at + 8 * lanes, 0, 3);
          return Type::load(at);
        };
        transpose_four(row(0), row(1), row(2), row(3), block);
        float* to = dst + c * ld + r;
        if (there == 4)
          for (int64_t n = 0; n < lanes; ++n, to += ld)
            hn::StoreU(hn::Load(four, block + n % 4 * lanes + n / 4 * 4), four, to);
        else  // the last row stood in for those that are not there
          for (int64_t n = 0; n < lanes; ++n, to += ld)
            hn::BlendedStore(hn::Load(four, block + n % 4 * lanes + n / 4 * 4),
                             hn::FirstN(four, static_cast<size_t>(there)), four, to);
      }
    for (; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) dst[c * ld + r] = Type::one(from[r * stride + c]);
  });
}

// What a tile fetches ahead: `lines` cache lines per `ahead_steps` steps of k.
struct Ahead {
  const std::byte* next;
  int64_t lines;
};
constexpr int64_t ahead_steps = 8;

// Where a tile's complete sums end without a detour: a Finish of bias, residual of the output's type and clamp. `bias`
// has a vector for each of the tile's; `residual`, null when there is none, and `out` are the first element of its
// first row.
struct Direct {
  const float* bias;
  const Finish* finish;
  const std::byte* residual;
  std::byte* out;
};

template <class In, class Out, int rows, int vectors>
HWY_INLINE void store_direct(const VF (&sum)[rows][vectors], const Direct& direct) {
  const VF low = hn::Set(F(), direct.finish->low), high = hn::Set(F(), direct.finish->high);
  const auto* residual = reinterpret_cast<const typename In::T*>(direct.residual);
  auto* out = reinterpret_cast<typename Out::T*>(direct.out);
  const auto store = [&](auto add) __attribute__((always_inline)) {
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        VF x = hn::Add(sum[r][v], hn::LoadU(F(), direct.bias + v * lanes));
        if constexpr (add) x = hn::Add(x, In::load(residual + r * direct.finish->residual.row_step + v * lanes));
        Out::store(clamp(x, low, high), out + r * direct.finish->out.row_step + v * lanes);
      }
  };
  residual ? store(std::true_type()) : store(std::false_type());
}

constexpr bool ends_directly(int64_t stride) { return stride != narrow_stride; }

// Row r of a block at depth k: a[r · stride + k], or a[k · rows + r] when stride is `blocked`; a_stride is
// any_stride's.
template <Pairing pairing, int rows, int64_t stride, int vectors, int panel_vectors>
void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT panel, int64_t depth, float* HWY_RESTRICT c,
          int64_t ldc, bool add, Ahead ahead, const Direct* direct, [[maybe_unused]] int64_t a_stride) {
  const F f;
  constexpr int64_t width = panel_vectors * lanes;
  VF sum[rows][vectors];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(f);
  for (int64_t k = 0; k < depth;) {
    for (int64_t line = 0; line < ahead.lines; ++line, ahead.next += 64) __builtin_prefetch(ahead.next, 0, 2);
      // Unrolled, compilers move sums from register to register, and some to memory.
#pragma GCC unroll 1
    for (const int64_t end = std::min(depth, k + ahead_steps); k < end; ++k) {
      VF b[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        b[v] = hn::LoadU(f, panel + v * lanes);
        // The hardware's prefetcher into L1 does not keep up with two lines per step.
        if constexpr (stride != any_stride) __builtin_prefetch(panel + 8 * width + v * lanes, 0, 3);
      }
      panel += width;
#pragma GCC unroll 12
      for (int r = 0; r < rows; ++r) {
        const VF x = hn::Set(f, stride == blocked      ? a[k * rows + r]
                                : stride == any_stride ? a[r * a_stride + k]
                                                       : a[r * stride + k]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[r][v] = paired<pairing>(x, b[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      if (add) sum[r][v] = merged<pairing>(sum[r][v], hn::LoadU(f, c + r * ldc + v * lanes));
  if constexpr (ends_directly(stride)) {
    if (direct) {
      const DType dtype = direct->finish->out.dtype;
      if (dtype == DType::f32) return store_direct<F32, ToF32>(sum, *direct);
      if (dtype == DType::f16) return store_direct<F16, ToF16>(sum, *direct);
      return store_direct<BF16, ToBF16>(sum, *direct);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) hn::StoreU(sum[r][v], f, c + r * ldc + v * lanes);
}

using Tile = void (*)(const float*, const float*, int64_t, float*, int64_t, bool, Ahead, const Direct*, int64_t);
// Tile i has i / vectors + 1 rows and i % vectors + 1 of a panel's vectors.
template <Pairing pairing, int64_t stride, int vectors, int... i>
constexpr std::array<Tile, sizeof...(i)> tiles_of(std::integer_sequence<int, i...>) {
  return {tile<pairing, i / vectors + 1, stride, i % vectors + 1, vectors>...};
}

// With 32 registers one block of rows stays in L1 while the panels come from L2; with 16 one panel, if it is small, and
// the rows come: a step reads less of them.
template <int64_t stride, int panel_rows, int panel_vectors, Pairing pairing = Pairing::product>
void multiply(const BlockProduct& p, int64_t a_stride = stride) {
  static constexpr auto tiles =
      tiles_of<pairing, stride, panel_vectors>(std::make_integer_sequence<int, panel_rows * panel_vectors>());
  constexpr int64_t width = panel_vectors * lanes, most = 256;  // columns that end directly
  const int64_t blocks = (p.rows + panel_rows - 1) / panel_rows;
  const bool direct = ends_directly(stride) && p.finish && p.finish->activation == Activation::linear &&
                      (!p.finish->residual.data || p.finish->residual.dtype == p.finish->out.dtype) &&
                      p.columns <= most;
  HWY_ALIGN float bias[most];
  if (direct)
    for (int64_t n = 0; n < p.columns; n += lanes)
      hn::Store(load_bias(p.finish->bias, p.column + n, p.columns - n), F(), bias + n);
  const int64_t steps = (p.depth + ahead_steps - 1) / ahead_steps;
  const int64_t lines = p.next && steps > 0 ? (p.next_bytes + 64 * blocks * steps - 1) / (64 * blocks * steps) : 0;
  const auto multiply_tile = [&](int64_t i, int64_t r0, int64_t r1, int64_t n) __attribute__((always_inline)) {
    float* c = p.c + r0 * p.ldc + n * width;
    const int64_t wanted = std::min(width, p.columns - n * width), n0 = p.column + n * width;
    const bool whole = direct && wanted % lanes == 0;
    // With 16 registers a tile is a line wide: stores wait for as little as prefetches would cost.
    const bool far = has_many || !whole || p.finish->residual.data;
    if (p.finish && far) prefetch_tile(*p.finish, p.row + r0, p.row + r1, n0, n0 + wanted);
    const int64_t fetched = i * steps * lines * 64;
    const Ahead ahead{p.next + n * p.next_stride + fetched, fetched < p.next_bytes ? lines : 0};
    Direct end{bias + n * width, p.finish, nullptr, nullptr};
    if (whole) end.out = p.finish->out.at(p.row + r0, n0);
    if (whole && p.finish->residual.data) end.residual = p.finish->residual.at(p.row + r0, n0);
    const int64_t row = stride == blocked ? p.depth : stride == any_stride ? a_stride : stride;
    tiles[(r1 - r0 - 1) * panel_vectors + (wanted - 1) / lanes](p.a + r0 * row, p.panels + n * p.panel_stride, p.depth,
                                                                c, p.ldc, p.add, ahead, whole ? &end : nullptr,
                                                                a_stride);
    if (p.finish && !whole) finish_tile(*p.finish, c, p.ldc, p.row + r0, p.row + r1, n0, n0 + wanted);
  };
  constexpr int64_t panel_bytes = 20 << 10;  // of 32 KB
  if (!has_many && p.depth * width * 4 <= panel_bytes) {
    for (int64_t n = 0; n * width < p.columns; ++n)
      for (int64_t i = 0, r0 = 0, r1 = 0, rest = 0; i < blocks; ++i, r0 = r1) {  // r1 = rows · (i + 1) / blocks
        r1 += p.rows / blocks, rest += p.rows % blocks;
        if (rest >= blocks) rest -= blocks, ++r1;
        multiply_tile(i, r0, r1, n);
      }
    return;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t r0 = p.rows * i / blocks, r1 = p.rows * (i + 1) / blocks;
    for (int64_t n = 0; n * width < p.columns; ++n) multiply_tile(i, r0, r1, n);
  }
}
void multiply_blocks(const BlockProduct& product) {
  switch (product.pairing) {
    case Pairing::product:
      return multiply<blocked, wide_rows, wide_vectors>(product);
    case Pairing::squares:
      return multiply<blocked, wide_rows, wide_vectors, Pairing::squares>(product);
    case Pairing::distances:
      return multiply<blocked, wide_rows, wide_vectors, Pairing::distances>(product);
    case Pairing::farthest:
      return multiply<blocked, wide_rows, wide_vectors, Pairing::farthest>(product);
  }
}
void multiply_rows(const BlockProduct& product, int64_t a_stride) {
  if constexpr (!has_many) multiply<any_stride, wide_rows, wide_vectors>(product, a_stride);
}
void multiply_wide(const BlockProduct& product) { multiply<wide_stride, tall_rows, tall_vectors>(product); }
void multiply_narrow(const BlockProduct& product) {
  const bool tall = product.tile.columns == tall_tile().columns;
  tall ? multiply<narrow_stride, tall_rows, tall_vectors>(product)
       : multiply<narrow_stride, wide_rows, wide_vectors>(product);
}

TileShape wide_tile() { return {wide_rows, wide_vectors * lanes}; }
TileShape tall_tile() { return {tall_rows, tall_vectors * lanes}; }
bool many_registers() { return has_many; }

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product {
HWY_EXPORT(all_finite);
HWY_EXPORT(widen);
HWY_EXPORT(widen_rows);
HWY_EXPORT(transpose);
HWY_EXPORT(multiply_blocks);
HWY_EXPORT(multiply_rows);
HWY_EXPORT(multiply_wide);
HWY_EXPORT(multiply_narrow);
HWY_EXPORT(wide_tile);
HWY_EXPORT(tall_tile);
HWY_EXPORT(many_registers);

bool all_finite(DType dtype, const void* x, int64_t stride, int64_t rows, int64_t columns) {
  return HWY_DYNAMIC_DISPATCH(all_finite)(dtype, x, stride, rows, columns);
}
void widen(DType dtype, const void* src, int64_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(widen)(dtype, src, count, dst);
}
void widen_rows(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(widen_rows)(dtype, src, stride, rows, cols, dst, ld);
}
void transpose(DType dtype, const void* src, int64_t stride, int64_t rows, int64_t cols, float* dst, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(transpose)(dtype, src, stride, rows, cols, dst, ld);
}
void multiply_blocks(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_blocks)(product); }
void multiply_rows(const BlockProduct& product, int64_t a_stride) {
  HWY_DYNAMIC_DISPATCH(multiply_rows)(product, a_stride);
}
void multiply_wide(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_wide)(product); }
void multiply_narrow(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_narrow)(product); }
TileShape wide_tile() { return HWY_DYNAMIC_DISPATCH(wide_tile)(); }
TileShape tall_tile() { return HWY_DYNAMIC_DISPATCH(tall_tile)(); }
bool many_registers() { return HWY_DYNAMIC_DISPATCH(many_registers)(); }
}  // namespace npusim::cpu::product
#endif
