// Products of matrices of 64 bits. The kernel's reduction becomes a load of its sums, which are made first.
#include "backends/cpu/product/wide.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/operand.h"
#include "backends/cpu/vector_targets.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/threads.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/rename.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/wide.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef NPUSIM_WIDE_TILE
#define NPUSIM_WIDE_TILE
namespace npusim::cpu {

constexpr int64_t tile_rows = 4, tile_vectors = 3;

// c[r·ldc + n] = Σ over depth of a[k][r] · b[k][n], added to what c holds where `add`.
template <class T>
struct WideTile {
  const T *a, *b;  // [depth][tile_rows], [depth][columns of a tile]
  int64_t depth;
  T* c;
  int64_t ldc;
  bool add;
};

}  // namespace npusim::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE void multiply(const WideTile<T>& t) {
  using D = hn::ScalableTag<T>;
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const D d;
  hn::Vec<D> sum[tile_rows][tile_vectors];
#pragma GCC unroll 4
  for (int r = 0; r < tile_rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < tile_vectors; ++v) sum[r][v] = t.add ? hn::LoadU(d, t.c + r * t.ldc + v * lanes) : hn::Zero(d);
  const T *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.depth; ++k, a += tile_rows, b += tile_vectors * lanes) {
    hn::Vec<D> column[tile_vectors];
#pragma GCC unroll 4
    for (int v = 0; v < tile_vectors; ++v) column[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 4
    for (int r = 0; r < tile_rows; ++r) {
      const hn::Vec<D> x = hn::Set(d, a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < tile_vectors; ++v)
        if constexpr (std::is_floating_point_v<T>)
          sum[r][v] = hn::MulAdd(x, column[v], sum[r][v]);
        else
          sum[r][v] = hn::Add(sum[r][v], hn::Mul(x, column[v]));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < tile_rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < tile_vectors; ++v) hn::StoreU(sum[r][v], d, t.c + r * t.ldc + v * lanes);
}

void multiply_doubles(const WideTile<double>& t) { multiply(t); }
void multiply_integers(const WideTile<int64_t>& t) { multiply(t); }
int64_t columns_of_tile() { return tile_vectors * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<double>())); }

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu {
HWY_EXPORT(multiply_doubles);
HWY_EXPORT(multiply_integers);
HWY_EXPORT(columns_of_tile);

namespace {

constexpr int64_t block_depth = 256, most_panels = 8, most_rows = 512;  // of a block
constexpr int64_t least_rows = 4, least_columns = 4, least_depth = 4;

void multiply(const WideTile<double>& t) { HWY_DYNAMIC_DISPATCH(multiply_doubles)(t); }
void multiply(const WideTile<int64_t>& t) { HWY_DYNAMIC_DISPATCH(multiply_integers)(t); }

// A reduction that sums products of two loads, and the dimensions that they have.
struct SumOfProducts {
  size_t at = 0;  // the expression
  const Access *a = nullptr, *b = nullptr;
  ProductAxes axes;
};

bool is_plain(const Kernel& k, const Access& a, Scalar sum) {
  const DType dtype = k.args[static_cast<size_t>(a.arg)].dtype;
  const bool fits = sum == Scalar::f64 ? dtype == DType::f64 : !is_float(dtype);
  return a.guards.empty() && a.terms.empty() && fits;
}

std::optional<SumOfProducts> match(const Kernel& k) {
  const auto expr = [&](int32_t i) -> const Expr& { return k.exprs[static_cast<size_t>(i)]; };
  std::optional<SumOfProducts> found;
  for (size_t i = 0; i < k.exprs.size(); ++i) {
    const Expr& e = k.exprs[i];
    if (e.op == ExprOp::scan || e.op == ExprOp::order) return std::nullopt;
    if (e.op != ExprOp::reduce) continue;
    const bool wide = e.type == Scalar::f64 || e.type == Scalar::i64;
    if (found || !wide || e.reduction != Reduction::sum || expr(e.in[0]).op != ExprOp::mul) return std::nullopt;
    const Expr &a = expr(expr(e.in[0]).in[0]), &b = expr(expr(e.in[0]).in[1]);
    if (a.op != ExprOp::load || b.op != ExprOp::load) return std::nullopt;
    found =
        SumOfProducts{i, &k.accesses[static_cast<size_t>(a.integer)], &k.accesses[static_cast<size_t>(b.integer)], {}};
    if (!is_plain(k, *found->a, e.type) || !is_plain(k, *found->b, e.type)) return std::nullopt;
  }
  if (!found) return std::nullopt;
  std::vector<int> batch, rows, columns, depth;
  for (int d = 0; d < static_cast<int>(k.space.size()); ++d) {
    const bool a = depends_on(*found->a, d), b = depends_on(*found->b, d);
    if (d >= static_cast<int>(k.space.size()) - k.row_dims)
      depth.push_back(d);
    else if (a || b)
      (a && b ? batch : a ? rows : columns).push_back(d);
  }
  const auto axis = [&](std::vector<int> dims) { return make_axis(k.space, std::move(dims)); };
  found->axes = {axis(batch), axis(rows), axis(columns), axis(depth)};
  const ProductAxes& x = found->axes;
  if (x.rows.size() < least_rows || x.columns.size() < least_columns || x.depth.size() < least_depth)
    return std::nullopt;
  return found;
}

// Where a dimension's sums lie, which are [batch][rows][columns].
std::vector<int64_t> strides_of_sums(const ProductAxes& axes, size_t rank) {
  std::vector<int64_t> strides(rank, 0);
  int64_t step = 1;
  for (const Axis* axis : {&axes.columns, &axes.rows, &axes.batch})
    for (size_t i = axis->dims.size(); i-- > 0; step *= axis->extents[i])
      strides[static_cast<size_t>(axis->dims[i])] = step;
  return strides;
}

// The kernel with a load of the sums, behind its arguments, instead of the reduction, and without the row that only
// that needs; nullopt where more varies along the row.
std::optional<Kernel> rest_of(const Kernel& k, const SumOfProducts& sums) {
  Kernel rest = k;
  const Scalar type = k.exprs[sums.at].type;
  rest.args.push_back({type == Scalar::f64 ? DType::f64 : DType::i64,
                       sums.axes.batch.size() * sums.axes.rows.size() * sums.axes.columns.size(), false, -1});
  rest.accesses.push_back(
      {static_cast<int>(rest.args.size()) - 1, 0, strides_of_sums(sums.axes, k.space.size()), {}, {}});
  Expr load{.op = ExprOp::load, .type = type};
  load.integer = static_cast<int64_t>(rest.accesses.size()) - 1;
  rest.exprs[sums.at] = load;
  drop_dead(rest);
  const Dependence depends = dependence_of(rest);
  const DimSet row = row_of(rest);
  if (std::any_of(depends.dims.begin(), depends.dims.end(), [&](DimSet set) { return (set & row) != 0; }))
    return std::nullopt;
  for (const Store& s : rest.stores)
    if (s.accumulate || (dims_of(s.access, depends) & row)) return std::nullopt;
  cut_row(rest);
  return rest;
}

// Calls body with a pointer to the elements of an operand, of their own type.
template <class Body>
void with_elements(const Operand& o, Body&& body) {
  switch (o.dtype) {
    case DType::f64:
      return body(reinterpret_cast<const double*>(o.data));
    case DType::i64:
      return body(reinterpret_cast<const int64_t*>(o.data));
    case DType::i32:
      return body(reinterpret_cast<const int32_t*>(o.data));
    case DType::i16:
      return body(reinterpret_cast<const int16_t*>(o.data));
    case DType::i8:
      return body(reinterpret_cast<const int8_t*>(o.data));
    default:  // u8 and boolean
      return body(reinterpret_cast<const uint8_t*>(o.data));
  }
}

// dst[(k - k0)·width + (i - i0)] for i in [i0, i0 + width), zeros behind the axis.
template <class T>
void pack_wide(const Operand& o, int64_t batch, int64_t i0, int64_t width, int64_t k0, int64_t k1, T* dst) {
  const int64_t there = std::min(width, o.size(1) - i0), base = o.offset + o.offsets[0][static_cast<size_t>(batch)];
  const int64_t *at = o.offsets[1].data() + i0, *deep = o.offsets[2].data();
  with_elements(o, [&](const auto* elements) {
    for (int64_t k = k0; k < k1; ++k, dst += width) {
      const auto* from = elements + base + deep[k];
      if (o.step[1] == 1)
        for (int64_t i = 0; i < there; ++i) dst[i] = static_cast<T>(from[at[0] + i]);
      else
        for (int64_t i = 0; i < there; ++i) dst[i] = static_cast<T>(from[at[i]]);
      std::fill(dst + there, dst + width, T{});
    }
  });
}

template <class T>
class WideStep final : public BoundStep {
 public:
  WideStep(const Kernel& kernel, Kernel rest, const SumOfProducts& sums, std::span<const Binding> args, int threads)
      : threads_(threads),
        batches_(sums.axes.batch.size()),
        rows_(sums.axes.rows.size()),
        columns_(sums.axes.columns.size()),
        depth_(sums.axes.depth.size()),
        width_(HWY_DYNAMIC_DISPATCH(columns_of_tile)()),
        rest_kernel_(std::move(rest)),
        rest_(rest_kernel_, threads) {
    const auto operand = [&](const Access& access, const Axis& axis) {
      const auto arg = static_cast<size_t>(access.arg);
      return make_operand(access, kernel.args[arg].dtype, args[arg].data, {sums.axes.batch, axis, sums.axes.depth});
    };
    a_ = operand(*sums.a, sums.axes.rows), b_ = operand(*sums.b, sums.axes.columns);
    for (const Binding& binding : args) args_.push_back(binding.data);
    args_.push_back(nullptr);
    block_columns_ = std::min(most_panels, ceil_div(columns_, width_)) * width_;
    column_blocks_ = ceil_div(columns_, block_columns_);
    const int64_t shares = ceil_div(threads_, batches_ * column_blocks_);
    block_rows_ = std::min(most_rows, ceil_div(ceil_div(rows_, shares), tile_rows) * tile_rows);
    row_blocks_ = ceil_div(rows_, block_rows_);
    sums_bytes_ = (batches_ * rows_ * columns_ * 8 + 63) / 64 * 64;
    thread_values_ = block_depth * (block_columns_ + tile_rows) + tile_rows * width_;
    scratch_bytes_ = static_cast<size_t>(sums_bytes_ + threads_ * thread_values_ * 8);
  }

  void run() override {
    const int64_t blocks = batches_ * column_blocks_ * row_blocks_;
    on_threads(threads_, [&](int thread) {
      for (int64_t i = blocks * thread / threads_; i < blocks * (thread + 1) / threads_; ++i)
        block(i / (column_blocks_ * row_blocks_), i / row_blocks_ % column_blocks_ * block_columns_,
              i % row_blocks_ * block_rows_, thread);
    });
    if (!rest_.run(args_.data())) fail(ErrorKind::bad_input, "{}", rest_.trap_message());
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    args_.back() = scratch_;
  }
  std::string describe() const override {
    return fmt::format("products {}x{}x{}x{} {}", batches_, rows_, columns_, depth_,
                       std::is_floating_point_v<T> ? "float64" : "int64");
  }

 private:
  // The sums of rows from r0 and columns from c0 on.
  void block(int64_t batch, int64_t c0, int64_t r0, int thread) {
    T* b = reinterpret_cast<T*>(scratch_ + sums_bytes_) + thread * thread_values_;
    T *a = b + block_depth * block_columns_, *part = a + block_depth * tile_rows;
    const int64_t r1 = std::min(rows_, r0 + block_rows_), c1 = std::min(columns_, c0 + block_columns_);
    T* sums = reinterpret_cast<T*>(scratch_) + batch * rows_ * columns_;
    for (int64_t k0 = 0; k0 < depth_; k0 += block_depth) {
      const int64_t k1 = std::min(depth_, k0 + block_depth);
      for (int64_t c = c0; c < c1; c += width_) pack_wide(b_, batch, c, width_, k0, k1, b + (c - c0) * block_depth);
      for (int64_t r = r0; r < r1; r += tile_rows) {
        pack_wide(a_, batch, r, tile_rows, k0, k1, a);
        for (int64_t c = c0; c < c1; c += width_) {
          const int64_t rows = std::min(tile_rows, r1 - r), columns = std::min(width_, c1 - c);
          T* to = sums + r * columns_ + c;
          WideTile<T> tile{a, b + (c - c0) * block_depth, k1 - k0, to, columns_, k0 > 0};
          const bool whole = rows == tile_rows && columns == width_;
          if (!whole) tile.c = part, tile.ldc = width_, tile.add = false;
          multiply(tile);
          if (!whole) add_part(part, rows, columns, to, k0 > 0);
        }
      }
    }
  }
  void add_part(const T* part, int64_t rows, int64_t columns, T* to, bool add) const {
    using Sum = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;  // which wraps around
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const auto sum = static_cast<Sum>(part[r * width_ + c]);
        T& there = to[r * columns_ + c];
        there = static_cast<T>(add ? static_cast<Sum>(there) + sum : sum);
      }
  }

  int threads_;
  int64_t batches_, rows_, columns_, depth_;
  int64_t width_;  // of a tile
  Kernel rest_kernel_;
  Loops rest_;
  Operand a_, b_;  // axes: batch, rows, depth; batch, columns, depth
  std::vector<void*> args_;
  int64_t block_columns_ = 0, column_blocks_ = 0, block_rows_ = 0, row_blocks_ = 0;
  int64_t sums_bytes_ = 0, thread_values_ = 0;
};

}  // namespace

std::unique_ptr<BoundStep> make_wide_step(const Kernel& kernel, std::span<const Binding> args, const Context& context) {
  if (kernel.row_dims == 0 || element_count(kernel.space) == 0) return nullptr;
  const std::optional<SumOfProducts> sums = match(kernel);
  if (!sums) return nullptr;
  std::optional<Kernel> rest = rest_of(kernel, *sums);
  if (!rest) return nullptr;
  const int threads = usable_threads(kernel, context);
  if (kernel.exprs[sums->at].type == Scalar::f64)
    return std::make_unique<WideStep<double>>(kernel, std::move(*rest), *sums, args, threads);
  return std::make_unique<WideStep<int64_t>>(kernel, std::move(*rest), *sums, args, threads);
}

}  // namespace npusim::cpu
#endif
