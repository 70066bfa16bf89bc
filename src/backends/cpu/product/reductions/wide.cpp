// Products of matrices of 64 bits, and distances of their rows. The kernel's reduction becomes a load of its sums,
// which are made first.
#include "backends/cpu/product/reductions/wide.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "backends/cpu/loops/loops.h"
#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/operand.h"
#include "backends/cpu/product/reductions/sum_of_products.h"
#include "backends/cpu/vector_targets.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/reductions/wide.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/part_vector-inl.h"
#include "backends/cpu/product/pairing-inl.h"

#ifndef NPUSIM_WIDE_TILE
#define NPUSIM_WIDE_TILE
namespace npusim::cpu::product::reductions {

constexpr int64_t tile_vectors = 3, most_lanes = 8;  // of a tile's columns, which are a panel's

// c[r·ldc + n] (+)= Σ over depth of a(r, k) · b[k·width + n], or what else pairs give, for n < columns <= width, the
// columns of a panel. Rows [begin, end) of tile i of n = ⌈rows / tile_rows⌉ lie in columns: a(r, k) = a[begin·depth +
// k·(end - begin) + r - begin], begin = rows·i/n, end = rows·(i + 1)/n. What is added is the sum of these depths.
template <class T>
struct WideBlock {
  const T *a, *b;
  int64_t rows, columns, depth;
  T* c;
  int64_t ldc;
  bool add;
  Pairing pairing;  // of doubles; of integers the product
  bool root;        // sums of squares are complete and end in their square roots
};

// Elements (batch, i, k) of an operand for i in [i0, i1), k in [k0, k1), to dst[(k - k0)·width + i - i0]; zeros behind
// i1. At most as many i as a panel has columns.
struct WidePart {
  int64_t batch, i0, i1, k0, k1, width;
};

}  // namespace npusim::cpu::product::reductions
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::reductions {
namespace HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;
using namespace product::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<double>())), width = tile_vectors * lanes;
constexpr int tile_rows = HWY_TARGET == HWY_AVX3 ? 8 : 4;  // what fits in 32 registers, or 16
static_assert(lanes <= most_lanes);

template <Pairing pairing, int rows, int vectors, class T>
HWY_INLINE void multiply_tile(const WideBlock<T>& t, int64_t begin) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(d);
  T* c = t.c + begin * t.ldc;
  const T *a = t.a + begin * t.depth, *b = t.b;
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) __builtin_prefetch(c + r * t.ldc + v * lanes, 1);
  for (int64_t k = 0; k < t.depth; ++k, a += rows, b += width) {
    hn::Vec<decltype(d)> column[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) column[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const auto x = hn::Set(d, a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = paired<pairing>(x, column[v], sum[r][v]);
    }
  }
  const auto ended = [&](auto x) __attribute__((always_inline)) {
    if constexpr (pairing == Pairing::squares)
      if (t.root) return hn::Sqrt(x);
    return x;
  };
  const int64_t last = t.columns - (vectors - 1) * lanes;  // elements of the last vector
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r, c += t.ldc) {
#pragma GCC unroll 4
    for (int v = 0; v + 1 < vectors; ++v) {
      T* to = c + v * lanes;
      hn::StoreU(ended(t.add ? merged<pairing>(hn::LoadU(d, to), sum[r][v]) : sum[r][v]), d, to);
    }
    T* to = c + (vectors - 1) * lanes;
    const auto rest = sum[r][vectors - 1];
    part::store(ended(t.add ? merged<pairing>(part::load(to, last), rest) : rest), to, last);
  }
}

template <Pairing pairing, int rows, class T>
void multiply_rows(const WideBlock<T>& t, int64_t begin, int64_t count) {
  if constexpr (rows > 1)
    if (count < rows) return multiply_rows<pairing, rows - 1>(t, begin, count);
  if (t.columns > 2 * lanes)
    multiply_tile<pairing, rows, 3>(t, begin);
  else if (t.columns > lanes)
    multiply_tile<pairing, rows, 2>(t, begin);
  else
    multiply_tile<pairing, rows, 1>(t, begin);
}

template <Pairing pairing, class T>
HWY_INLINE void multiply(const WideBlock<T>& t) {
  const int64_t tiles = ceil_div(t.rows, tile_rows);
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = t.rows * i / tiles;
    multiply_rows<pairing, tile_rows>(t, begin, t.rows * (i + 1) / tiles - begin);
  }
}

// A stretch of elements evenly apart, along which all bounds' values are, too: those within bounds are neighbours.
struct Stretch {
  int64_t begin, end, step;
};
struct Stretches {
  Stretch all[tile_vectors * most_lanes];
  int count = 0;
};
HWY_INLINE Stretches stretches_of(const Operand& o, const WidePart& p) {
  Stretches found;
  const auto even = [](const std::vector<int64_t>& x, int64_t i) {
    const int64_t* at = &x[static_cast<size_t>(i)];
    return at[1] - at[0] == at[0] - at[-1];
  };
  for (int64_t i = p.i0; i < p.i1;) {
    const int64_t begin = i++;
    const auto* at = &o.offsets[1][static_cast<size_t>(begin)];
    const int64_t step = i < p.i1 ? at[1] - at[0] : 1;
    const auto goes_on = [&](int64_t last) {
      return even(o.offsets[1], last) && std::all_of(o.bounds.begin(), o.bounds.end(),
                                                     [&](const auto& bound) { return even(bound.values[1], last); });
    };
    if (i < p.i1)
      for (++i; i < p.i1 && goes_on(i - 1);) ++i;
    found.all[found.count++] = {begin, i, step};
  }
  return found;
}

// dst[n] = from[n·step]
template <class T, class From>
HWY_INLINE void copy_stretch(const From* from, int64_t step, int64_t count, T* dst) {
  if constexpr (std::is_same_v<T, From>) {
    if (step == 1) {
      const hn::ScalableTag<T> d;
      int64_t n = 0;
      for (; n + lanes <= count; n += lanes) hn::StoreU(hn::LoadU(d, from + n), d, dst + n);
      if (n < count) part::store(part::load(from + n, count - n), dst + n, count - n);
      return;
    }
  }
  for (int64_t n = 0; n < count; ++n) dst[n] = static_cast<T>(from[n * step]);
}

// As many vectors as each has lanes, of which four at most are used: vector i of the result has the lanes i of all.
constexpr int64_t square = lanes < 4 ? lanes : 4;
template <class T>
using SquareTag = hn::CappedTag<T, square>;
template <class T>
HWY_INLINE void transpose_square(hn::Vec<SquareTag<T>> (&x)[square]) {
#if HWY_TARGET != HWY_SCALAR
  const SquareTag<T> d;
  for (int64_t i = 0; i < square; i += 2) {
    const auto even = x[i], odd = x[i + 1];
    x[i] = hn::InterleaveLower(d, even, odd), x[i + 1] = hn::InterleaveUpper(d, even, odd);
  }
  if constexpr (square == 4)
    for (int i = 0; i < 2; ++i) {
      const auto low = x[i], high = x[i + 2];
      x[i] = hn::ConcatLowerLower(d, high, low), x[i + 2] = hn::ConcatUpperUpper(d, high, low);
    }
#endif
}

// Of elements that lie side by side along the depth.
template <class T>
HWY_INLINE void pack_transposed(const Operand& o, const WidePart& p, T* dst) {
  const SquareTag<T> d;
  const int64_t count = p.i1 - p.i0, depth = p.k1 - p.k0, whole = depth / square * square;
  const auto row = [&](int64_t i) { return reinterpret_cast<const T*>(o.at(p.batch, p.i0 + i, p.k0)); };
  int64_t i = 0;
  for (; i + square <= count; i += square) {
    const T* from[square];
    for (int64_t r = 0; r < square; ++r) from[r] = row(i + r);
    T* to = dst + i;
    for (int64_t k = 0; k < whole; k += square) {
      hn::Vec<decltype(d)> x[square];
      for (int64_t r = 0; r < square; ++r) x[r] = hn::LoadU(d, from[r] + k);
      transpose_square<T>(x);
      for (int64_t r = 0; r < square; ++r, to += p.width) hn::StoreU(x[r], d, to);
    }
    for (int64_t k = whole; k < depth; ++k, to += p.width)
      for (int64_t r = 0; r < square; ++r) to[r] = from[r][k];
  }
  for (; i < count; ++i) {
    const T* from = row(i);
    for (int64_t k = 0; k < depth; ++k) dst[k * p.width + i] = from[k];
  }
  if (count < p.width)
    for (int64_t k = 0; k < depth; ++k) std::fill(dst + k * p.width + count, dst + (k + 1) * p.width, T{});
}

constexpr int64_t lines_ahead = 8;
template <class T, class From>
HWY_INLINE void pack(const Operand& o, const WidePart& p, const From* elements, T* dst) {
  if constexpr (std::is_same_v<T, From>)
    if (o.bounds.empty() && o.step[2] == 1 && o.step[1] != 1) return pack_transposed(o, p, dst);
  const Stretches stretches = stretches_of(o, p);
  const bool lines = stretches.count == 1 && stretches.all[0].step == 1;
  const auto batch = static_cast<size_t>(p.batch);
  const int64_t* at = o.offsets[1].data();
  // Whatever is outside has an offset, but no memory. What wraps around does so twice.
  const auto offset_of = [&](int64_t i, int64_t k) {
    return static_cast<int64_t>(static_cast<uint64_t>(o.offset) + static_cast<uint64_t>(o.offsets[0][batch]) +
                                static_cast<uint64_t>(at[i]) +
                                static_cast<uint64_t>(o.offsets[2][static_cast<size_t>(k)]));
  };
  for (int64_t k = p.k0; k < p.k1; ++k, dst += p.width) {
    if (lines && o.bounds.empty()) {  // of a matrix are pages apart, which the hardware does not see coming
      const From* ahead = elements + offset_of(p.i0, std::min(k + lines_ahead, p.k1 - 1));
      for (int64_t i = 0; i < p.i1 - p.i0; i += 8) __builtin_prefetch(ahead + i);
    }
    const auto inside = [&](int64_t i) {
      for (const Operand::Bound& bound : o.bounds) {
        const int64_t value =
            bound.values[0][batch] + bound.values[1][static_cast<size_t>(i)] + bound.values[2][static_cast<size_t>(k)];
        if (value < 0 || value >= bound.limit) return false;
      }
      return true;
    };
    for (int s = 0; s < stretches.count; ++s) {
      auto [begin, end, step] = stretches.all[s];
      T *first = dst + (begin - p.i0), *behind = dst + (end - p.i0);
      if (!o.bounds.empty()) {
        while (begin < end && !inside(begin)) ++begin, *first++ = 0;
        while (begin < end && !inside(end - 1)) --end, *--behind = 0;
      }
      if (begin < end) copy_stretch(elements + offset_of(begin, k), step, end - begin, first);
    }
    if (p.i1 - p.i0 < p.width) std::fill(dst + (p.i1 - p.i0), dst + p.width, T{});
  }
}

void pack_doubles(const Operand& o, const WidePart& p, double* dst) {
  pack(o, p, reinterpret_cast<const double*>(o.data), dst);
}
void pack_integers(const Operand& o, const WidePart& p, int64_t* dst) {
  switch (o.dtype) {
    case DType::i64:
      return pack(o, p, reinterpret_cast<const int64_t*>(o.data), dst);
    case DType::i32:
      return pack(o, p, reinterpret_cast<const int32_t*>(o.data), dst);
    case DType::i16:
      return pack(o, p, reinterpret_cast<const int16_t*>(o.data), dst);
    case DType::i8:
      return pack(o, p, reinterpret_cast<const int8_t*>(o.data), dst);
    default:  // u8 and boolean
      return pack(o, p, reinterpret_cast<const uint8_t*>(o.data), dst);
  }
}

void multiply_doubles(const WideBlock<double>& t) {
  switch (t.pairing) {
    case Pairing::product:
      return multiply<Pairing::product>(t);
    case Pairing::squares:
      return multiply<Pairing::squares>(t);
    case Pairing::distances:
      return multiply<Pairing::distances>(t);
    case Pairing::farthest:
      return multiply<Pairing::farthest>(t);
  }
}
void multiply_integers(const WideBlock<int64_t>& t) { multiply<Pairing::product>(t); }
int64_t columns_of_tile() { return width; }
int64_t rows_of_tile() { return tile_rows; }

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::reductions
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::reductions {
HWY_EXPORT(multiply_doubles);
HWY_EXPORT(multiply_integers);
HWY_EXPORT(pack_doubles);
HWY_EXPORT(pack_integers);
HWY_EXPORT(columns_of_tile);
HWY_EXPORT(rows_of_tile);

namespace {

constexpr int64_t panel_values = 3072, block_values = 1 << 15;  // packed: in L1, and in L2
constexpr int64_t most_panels = 16;                             // of a block, whose rows are packed for it

void multiply(const WideBlock<double>& t) { HWY_DYNAMIC_DISPATCH(multiply_doubles)(t); }
void multiply(const WideBlock<int64_t>& t) { HWY_DYNAMIC_DISPATCH(multiply_integers)(t); }
void pack(const Operand& o, const WidePart& p, double* dst) { HWY_DYNAMIC_DISPATCH(pack_doubles)(o, p, dst); }
void pack(const Operand& o, const WidePart& p, int64_t* dst) { HWY_DYNAMIC_DISPATCH(pack_integers)(o, p, dst); }

// The operand with its guards' part of addresses in its offsets, and without bounds that hold everywhere.
Operand wide_operand(const Kernel& kernel, const Access& access, const Axis& axis, const ProductAxes& axes,
                     std::span<const Binding> args) {
  const auto arg = static_cast<size_t>(access.arg);
  Operand o = make_operand(access, kernel.args[arg].dtype, args[arg].data, {axes.batch, axis, axes.depth});
  for (const Operand::Bound& bound : o.bounds) {
    if (bound.stride == 0) continue;
    o.step = {-1, -1, -1};
    for (size_t axis = 0; axis < 3; ++axis)
      for (size_t i = 0; i < o.offsets[axis].size(); ++i)
        o.offsets[axis][i] =
            static_cast<int64_t>(static_cast<uint64_t>(o.offsets[axis][i]) +
                                 static_cast<uint64_t>(bound.stride) * static_cast<uint64_t>(bound.values[axis][i]));
  }
  std::erase_if(o.bounds, [](const Operand::Bound& bound) {
    int64_t low = 0, high = 0;
    for (const std::vector<int64_t>& values : bound.values) {
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      low += *least, high += *most;
    }
    return low >= 0 && high < bound.limit;
  });
  return o;
}

// The argument whose memory the sums may be in before what is made of them is stored there, in the same order; -1:
// none.
int result_for_sums(const Kernel& rest, std::span<const Binding> args) {
  if (rest.stores.size() != 1) return -1;
  const Access& to = rest.stores[0].access;
  const auto of_sums = [&](const Access& access) { return static_cast<size_t>(access.arg) == rest.args.size() - 1; };
  const auto from = std::find_if(rest.accesses.begin(), rest.accesses.end(), of_sums);
  if (from == rest.accesses.end()) return -1;
  const size_t arg = static_cast<size_t>(to.arg), bytes = static_cast<size_t>(rest.args[arg].elements) * 8;
  const KernelArg &result = rest.args[arg], &leaf = rest.args.back();
  if (dtype_size(result.dtype) != 8 || result.dtype != leaf.dtype || result.elements != leaf.elements) return -1;
  if (to.offset != 0 || !to.guards.empty() || !to.terms.empty()) return -1;
  for (size_t d = 0; d < rest.space.size(); ++d)
    if (rest.space[d] > 1 && to.strides[d] != from->strides[d]) return -1;
  const auto* begin = static_cast<const std::byte*>(args[arg].data);
  for (size_t i = 0; i < args.size(); ++i) {
    const auto* other = static_cast<const std::byte*>(args[i].data);
    const size_t other_bytes = static_cast<size_t>(rest.args[i].elements) * dtype_size(rest.args[i].dtype);
    if (i != arg && other < begin + bytes && begin < other + other_bytes) return -1;
  }
  return static_cast<int>(arg);
}

// Whether what is made of the sums is their square roots and nothing else.
bool is_root(const Kernel& rest) {
  return rest.exprs.size() == 2 && rest.exprs[0].op == ExprOp::load && rest.exprs[1].op == ExprOp::sqrt &&
         rest.stores[0].expr == 1;
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
        tile_rows_(HWY_DYNAMIC_DISPATCH(rows_of_tile)()),
        pairing_(sums.pairing),
        selected_(sums.selected),
        rest_kernel_(std::move(rest)),
        a_(wide_operand(kernel, sums.a, sums.axes.rows, sums.axes, args)),
        b_(wide_operand(kernel, sums.b, sums.axes.columns, sums.axes, args)) {
    for (const Binding& binding : args) args_.push_back(binding.data);
    const int result = result_for_sums(rest_kernel_, args);
    in_result_ = result >= 0;
    args_.push_back(in_result_ ? args_[static_cast<size_t>(result)] : nullptr);
    root_ = in_result_ && pairing_ == Pairing::squares && is_root(rest_kernel_);
    if (!in_result_ || (rest_kernel_.exprs.size() > 1 && !root_)) rest_.emplace(rest_kernel_, threads);
    if (selected_ != SumOfProducts::none) exact_.emplace(kernel, threads);
    cut_in_blocks();
  }

  void run() override {
    const int64_t blocks = batches_ * column_blocks_ * row_blocks_;
    infinite_ = false;
    on_threads(threads_, [&](int thread) {
      for (int64_t i = blocks * thread / threads_; i < blocks * (thread + 1) / threads_; ++i)
        block(i / (column_blocks_ * row_blocks_), i / row_blocks_ % column_blocks_, i % row_blocks_, thread);
    });
    std::optional<loops::Loops>& last = infinite_ ? exact_ : rest_;
    if (last && !last->run(args_.data())) fail(ErrorKind::bad_input, "{}", last->trap_message());
  }
  void set_scratch(void* scratch) override {
    BoundStep::set_scratch(scratch);
    if (!in_result_) args_.back() = scratch_;
  }
  std::string describe() const override {
    return fmt::format("{} {}x{}x{}x{} {}", pairing_ == Pairing::product ? "products" : "distances", batches_, rows_,
                       columns_, depth_, std::is_floating_point_v<T> ? "float64" : "int64");
  }

 private:
  // The depth is cut the same for any number of threads: sums are those of its slices.
  void cut_in_blocks() {
    slices_ = ceil_div(depth_, panel_values / width_);
    const int64_t slice = ceil_div(depth_, slices_), panels = ceil_div(columns_, width_);
    const int64_t tiles = ceil_div(rows_, tile_rows_), most_rows = block_values / slice;
    const int64_t shares = threads_ / std::gcd(batches_, int64_t{threads_});  // of a batch
    row_blocks_ = ceil_div(rows_, most_rows);
    column_blocks_ = std::max(ceil_div(panels, most_panels), panels > tiles ? std::min(panels, shares) : 1);
    if (panels <= tiles) row_blocks_ = std::max(row_blocks_, std::min(tiles, shares));
    const int64_t row_values = ceil_div(rows_, row_blocks_) * slice;
    panels_at_ = ceil_div(row_values, 8) * 8;
    thread_values_ = panels_at_ + ceil_div(slice * width_, 8) * 8;
    const int64_t sums = in_result_ ? 0 : ceil_div(batches_ * rows_ * columns_, 8) * 8;
    sums_bytes_ = sums * 8;
    scratch_bytes_ = static_cast<size_t>(sums_bytes_ + threads_ * thread_values_ * 8);
  }

  void block(int64_t batch, int64_t column_block, int64_t row_block, int thread) {
    T* a = reinterpret_cast<T*>(scratch_ + sums_bytes_) + thread * thread_values_;
    T* panel = a + panels_at_;
    const int64_t panels = ceil_div(columns_, width_), r0 = rows_ * row_block / row_blocks_,
                  rows = rows_ * (row_block + 1) / row_blocks_ - r0;
    T* sums = static_cast<T*>(args_.back()) + (batch * rows_ + r0) * columns_;
    for (int64_t slice = 0; slice < slices_; ++slice) {
      const int64_t k0 = depth_ * slice / slices_, k1 = depth_ * (slice + 1) / slices_;
      pack_rows(batch, r0, rows, k0, k1, a);
      if (selected_ == SumOfProducts::of_b) expect_finite(a, rows * (k1 - k0));
      for (int64_t p = panels * column_block / column_blocks_; p < panels * (column_block + 1) / column_blocks_; ++p) {
        const int64_t c = p * width_, columns = std::min(width_, columns_ - c);
        pack(b_, {batch, c, c + columns, k0, k1, width_}, panel);
        if (selected_ == SumOfProducts::of_a) expect_finite(panel, width_ * (k1 - k0));
        multiply(
            {a, panel, rows, columns, k1 - k0, sums + c, columns_, slice > 0, pairing_, root_ && slice + 1 == slices_});
      }
    }
  }
  void expect_finite(const T* x, int64_t count) {
    bool finite = true;
    for (int64_t i = 0; i < count; ++i)
      finite &= x[i] >= std::numeric_limits<T>::lowest() && x[i] <= std::numeric_limits<T>::max();
    if (!finite) infinite_ = true;
  }
  void pack_rows(int64_t batch, int64_t r0, int64_t rows, int64_t k0, int64_t k1, T* a) const {
    const int64_t tiles = ceil_div(rows, tile_rows_);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t begin = rows * i / tiles, end = rows * (i + 1) / tiles;
      pack(a_, {batch, r0 + begin, r0 + end, k0, k1, end - begin}, a + begin * (k1 - k0));
    }
  }

  int threads_;
  int64_t batches_, rows_, columns_, depth_;
  int64_t width_, tile_rows_;  // of a panel, of a tile
  Pairing pairing_;
  SumOfProducts::Selected selected_;
  Kernel rest_kernel_;
  Operand a_, b_;  // axes: batch, rows, depth; batch, columns, depth
  std::vector<void*> args_;
  bool in_result_ = false;             // the sums are, instead of in scratch
  bool root_ = false;                  // tiles end in what is made of the sums
  std::optional<loops::Loops> rest_;   // where that is more than the sums in the result
  std::optional<loops::Loops> exact_;  // the whole kernel, where a product that is not selected would be NaN
  std::atomic<bool> infinite_ = false;
  int64_t slices_ = 0, column_blocks_ = 0, row_blocks_ = 0;
  int64_t sums_bytes_ = 0, panels_at_ = 0, thread_values_ = 0;  // of scratch
};

}  // namespace

std::unique_ptr<BoundStep> make_wide_step(const Kernel& kernel, std::span<const Binding> args, const Context& context) {
  if (kernel.row_dims == 0 || element_count(kernel.space) == 0) return nullptr;
  const std::optional<SumOfProducts> sums = match_sum_of_products(kernel);
  if (!sums) return nullptr;
  std::optional<Kernel> rest = rest_of(kernel, *sums);
  if (!rest) return nullptr;
  const int threads = usable_threads(kernel, context);
  if (kernel.exprs[sums->at].type == Scalar::f64)
    return std::make_unique<WideStep<double>>(kernel, std::move(*rest), *sums, args, threads);
  return std::make_unique<WideStep<int64_t>>(kernel, std::move(*rest), *sums, args, threads);
}

}  // namespace npusim::cpu::product::reductions
#endif
