// Dot products of a few vectors with the rows of a weight.
#include "backends/cpu/product/gemv.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/gemv.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t gemv_lanes = static_cast<int64_t>(hn::MaxLanes(F()));
constexpr int64_t prefetch_bytes = 2048;  // ahead in the weight: the hardware does not cross pages

// One column of w against `rows` vectors: 4 independent sums per vector.
template <class Type, int rows>
HWY_INLINE void dot_column(const typename Type::T* w, int64_t depth, const float* x, int64_t ld_x, float* out,
                           int64_t ld_out) {
  const F f;
  constexpr int unroll = 4;
  constexpr int64_t step = unroll * gemv_lanes;
  VF sum[rows][unroll];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int u = 0; u < unroll; ++u) sum[r][u] = hn::Zero(f);
  int64_t k = 0;
  for (; k + step <= depth; k += step) {
    const auto* ahead = reinterpret_cast<const char*>(w + k) + prefetch_bytes;
    for (size_t line = 0; line < step * sizeof(typename Type::T); line += 64) __builtin_prefetch(ahead + line, 0, 3);
#pragma GCC unroll 16
    for (int u = 0; u < unroll; ++u) {
      const VF weight = Type::load(w + k + u * gemv_lanes);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        sum[r][u] = hn::MulAdd(weight, hn::LoadU(f, x + r * ld_x + k + u * gemv_lanes), sum[r][u]);
    }
  }
  for (; k + gemv_lanes <= depth; k += gemv_lanes)
    for (int r = 0; r < rows; ++r) sum[r][0] = hn::MulAdd(Type::load(w + k), hn::LoadU(f, x + r * ld_x + k), sum[r][0]);
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    float total = hn::GetLane(hn::SumOfLanes(f, hn::Add(hn::Add(sum[r][0], sum[r][1]), hn::Add(sum[r][2], sum[r][3]))));
    for (int64_t i = k; i < depth; ++i) total += Type::one(w[i]) * x[r * ld_x + i];
    out[r * ld_out] = total;
  }
}

void dot_columns(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                 int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* from = static_cast<const typename Type::T*>(w);
    for (int64_t n = 0; n < columns; ++n, from += stride) {
      if (rows == 1)
        dot_column<Type, 1>(from, depth, x, ld_x, out + n, ld_out);
      else if (rows == 2)
        dot_column<Type, 2>(from, depth, x, ld_x, out + n, ld_out);
      else if (rows == 3)
        dot_column<Type, 3>(from, depth, x, ld_x, out + n, ld_out);
      else
        dot_column<Type, 4>(from, depth, x, ld_x, out + n, ld_out);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(dot_columns);

void dot_columns(DType dtype, const void* w, int64_t stride, int64_t columns, int64_t depth, const float* x,
                 int64_t ld_x, int64_t rows, float* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(dot_columns)(dtype, w, stride, columns, depth, x, ld_x, rows, out, ld_out);
}

namespace {

constexpr int64_t chunk_columns = 256;  // of a tile of the epilogue

class GemvStep final : public BoundStep {
 public:
  GemvStep(const Problem& p, Matrices& m)
      : a_(std::move(m.a)),
        b_(std::move(m.b)),
        rows_(a_.size(1)),
        columns_(b_.size(1)),
        depth_(a_.size(2)),
        threads_(static_cast<int>(std::min<int64_t>(usable_threads(p.kernel, p.context), columns_))),
        epilogue_(m.kernel, p.args, m.axes.batch, m.axes.rows, m.axes.columns, chunk_columns, threads_) {
    ld_x_ = (depth_ + 31) / 16 * 16;
    thread_floats_ = rows_ * ld_x_ + rows_ * chunk_columns;
    scratch_bytes_ = static_cast<size_t>(thread_floats_ * threads_) * 4;
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      float* x = reinterpret_cast<float*>(scratch_) + thread * thread_floats_;
      float* out = x + rows_ * ld_x_;
      pack(a_, {0, 0, rows_, 0, depth_}, x, ld_x_);
      const int64_t last = columns_ * (thread + 1) / threads_;
      for (int64_t n = columns_ * thread / threads_; n < last; n += chunk_columns) {
        const int64_t count = std::min(chunk_columns, last - n);
        products(n, count, x, out);
        epilogue_.run(out, 0, 0, rows_, n, n + count, thread);
      }
    });
    epilogue_.check();
  }

  std::string describe() const override {
    return fmt::format("gemv {}x{}x{} b {}", rows_, columns_, depth_, dtype_name(b_.dtype));
  }

 private:
  // A few rows after the other meet columns that stay in L1 or L2.
  void products(int64_t n, int64_t count, const float* x, float* out) const {
    constexpr int64_t near_bytes = 64 << 10;
    const int64_t near = b_.step[1] == -1         ? 1
                         : rows_ <= gemv_max_rows ? count
                                                  : std::max<int64_t>(near_bytes / (depth_ * 4), 1);
    for (int64_t i = 0; i < count; i += near)
      for (int64_t r = 0; r < rows_; r += gemv_max_rows)
        dot_columns(b_.dtype, b_.at(0, n + i, 0), b_.step[1], std::min(near, count - i), depth_, x + r * ld_x_, ld_x_,
                    std::min(gemv_max_rows, rows_ - r), out + r * chunk_columns + i, chunk_columns);
  }

  Operand a_, b_;
  int64_t rows_, columns_, depth_;
  int threads_;
  TileEpilogue epilogue_;
  int64_t ld_x_ = 0, thread_floats_ = 0;
};

}  // namespace

Answer make_gemv_step(Problem& problem) {
  Matrices& m = matrices_of(problem);
  const Operand &a = m.a, &b = m.b;
  if (a.size(0) != 1) return decline(fmt::format("{} products", a.size(0)));
  // A weight that is an input would be packed by every run: for so few rows that takes longer than to multiply them,
  // where there are registers for it.
  constexpr int64_t most_unpacked_rows = 32, least_depth = 128, least_weight = 32 << 10;
  const bool unpacked = many_registers() && !m.constant && a.size(1) <= most_unpacked_rows &&
                        a.size(2) >= least_depth && a.size(2) * b.size(1) >= least_weight;
  if (a.size(1) > gemv_max_rows && !unpacked) return decline(fmt::format("{} rows", a.size(1)));
  if (a.size(2) == 0) return decline("a sum of nothing");
  if (b.step[2] != 1 || !b.bounds.empty()) return decline("weights of a sum that do not lie side by side");
  if (b.dtype != DType::f32 && b.dtype != DType::f16 && b.dtype != DType::bf16)
    return decline(fmt::format("a weight of {}", dtype_name(b.dtype)));
  return accept(std::make_unique<GemvStep>(problem, m));
}

}  // namespace npusim::cpu
#endif
