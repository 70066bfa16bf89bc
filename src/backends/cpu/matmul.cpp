// Blocked matrix products over packed operands.
#include "backends/cpu/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "backends/cpu/contraction_finish.h"
#include "backends/cpu/contraction_simd.h"
#include "backends/cpu/gemv.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/product.h"

namespace npusim::cpu {
namespace {

// A block of rows of a meets a group of columns of b, one slice of the depth after the other. In L2 lie a slice of the
// rows, the group's sums, and what is used next of b.
struct Blocking {
  TileShape tile;
  int64_t slice_depth, group_columns;
  int64_t pass_columns;                          // of the group, that meet all rows before the next do
  enum Rows { by_tile, by_row, in_place } rows;  // packed for multiply_blocks, packed, or as they are in memory
  int64_t row_stride;
};
constexpr int64_t max_block_rows = 256;
constexpr int64_t max_block_floats = 2 << 20;  // of all slices of the rows, which L3 holds

// With 16 registers a step of a tile reads 16 numbers of b for 6 of a, and L1 is small: one panel stays there while the
// rows come from L2. Rows of float32 may stay where they are unless they share cache sets; packing them pays where many
// columns meet them.
Blocking choose_narrow_blocking(const Operand& a, int64_t columns) {
  constexpr int64_t slice_depth = 256, page_floats = 1024;
  const bool dense = a.dtype == DType::f32 && a.bounds.empty() && a.step[1] != -1 && a.step[2] == 1 && a.size(2) > 0;
  const bool in_place = dense && (a.step[1] % page_floats != 0 || columns < 128);
  return {wide_tile(),
          slice_depth,
          128,
          wide_tile().columns,
          in_place ? Blocking::in_place : Blocking::by_row,
          in_place ? a.step[1] : slice_depth + 16};
}

// With 32 registers a block of rows stays in L1 while the panels come from L2. Packing rows tile by tile costs more,
// and element by element far more where rows are not evenly apart; many products of each packed element pay for it.
Blocking choose_blocking(const Operand& a, int64_t columns) {
  if (!many_registers()) return choose_narrow_blocking(a, columns);
  const bool even = a.bounds.empty() && ((a.step[1] != -1 && a.step[2] == 1) || (a.step[1] == 1 && a.step[2] != -1));
  if (even && a.size(1) >= 64 && columns >= 256 && a.size(2) >= 256)
    return {wide_tile(), 384, 64, 64, Blocking::by_tile, 0};
  return {tall_tile(), wide_depth, 128, 128, Blocking::by_row, wide_stride};
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Float32 products that oneDNN computes more slowly on Cascade Lake: of few rows, by 15 %, and where many columns meet
// each packed row and the weight comes from memory, by 2 to 6 %. Without AVX-512 it runs its BLAS routine: on the 16
// registers of a Zen 5 that is 40 % behind where rows of the weight are a multiple of 4 KB apart, and elsewhere within
// 5 % but for small depths, where a tile's beginning and end weigh.
bool beats_library(const Operand& a, int64_t columns) {
  const int64_t depth = a.size(2);
  if (a.dtype != DType::f32) return false;
  if (!many_registers()) return depth >= 64;
  if (a.size(1) < 64 && depth >= 256) return true;
  return choose_blocking(a, columns).rows == Blocking::by_tile && columns >= 2 * depth &&
         columns * depth >= int64_t{1} << 20;
}

int64_t align_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }
bool narrow_type(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// One panel, columns [j0, j0 + width) of depths [k0, k1), as f32. Operand axes: batch, columns, depth.
void pack_panel(const Operand& b, int64_t width, int64_t batch, int64_t j0, int64_t k0, int64_t k1, float* dst) {
  const int64_t columns = std::min(width, b.size(1) - j0);
  if (columns < width) std::memset(dst, 0, static_cast<size_t>((k1 - k0) * width) * 4);
  pack_transposed(b, {batch, j0, j0 + columns, k0, k1}, dst, width);
}

// The same without conversion, for a 16-bit operand without bounds.
void pack_panel_bits(const Operand& b, int64_t width, int64_t batch, int64_t j0, uint16_t* dst) {
  const int64_t columns = std::min(width, b.size(1) - j0);
  const auto* from = reinterpret_cast<const uint16_t*>(b.data) + b.offset + b.offsets[0][static_cast<size_t>(batch)];
  for (int64_t k = 0; k < b.size(2); ++k) {
    const auto* row = from + b.offsets[2][static_cast<size_t>(k)];
    for (int64_t n = 0; n < columns; ++n) dst[k * width + n] = row[b.offsets[1][static_cast<size_t>(j0 + n)]];
    for (int64_t n = columns; n < width; ++n) dst[k * width + n] = 0;
  }
}

std::shared_ptr<const PackedWeight> pack_weight(const Operand& b, int64_t width, int threads) {
  const int64_t panels = ceil_div(b.size(1), width), depth = b.size(2);
  auto packed = std::make_shared<PackedWeight>();
  packed->dtype = narrow_type(b.dtype) && b.bounds.empty() ? b.dtype : DType::f32;
  const int64_t element = static_cast<int64_t>(dtype_size(packed->dtype)), panel_bytes = depth * width * element;
  packed->data = aligned_bytes(static_cast<size_t>(b.size(0) * panels * panel_bytes));
  on_threads(threads, [&](int thread) {
    const int64_t all = b.size(0) * panels;
    for (int64_t p = all * thread / threads; p < all * (thread + 1) / threads; ++p) {
      std::byte* dst = packed->data.get() + p * panel_bytes;
      const int64_t batch = p / panels, j0 = p % panels * width;
      if (packed->dtype == DType::f32)
        pack_panel(b, width, batch, j0, 0, depth, reinterpret_cast<float*>(dst));
      else
        pack_panel_bits(b, width, batch, j0, reinterpret_cast<uint16_t*>(dst));
    }
  });
  return packed;
}

std::string weight_key(const Operand& b, int64_t width) {
  uint64_t hash = 1469598103934665603u;
  auto mix = [&](int64_t value) { hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211u; };
  for (const auto& offsets : b.offsets)
    for (int64_t offset : offsets) mix(offset);
  for (const auto& bound : b.bounds) {
    mix(bound.limit), mix(bound.stride);
    for (const auto& values : bound.values)
      for (int64_t value : values) mix(value);
  }
  return fmt::format("{} {} {} {} {}x{}x{} {:x}", width, static_cast<const void*>(b.data), dtype_name(b.dtype),
                     b.offset, b.size(0), b.size(1), b.size(2), hash);
}

std::shared_ptr<const PackedWeight> cached_weight(const Operand& b, int64_t width, const Context& context) {
  if (!context.weights) return pack_weight(b, width, context.threads);
  const std::string key = weight_key(b, width);
  const std::lock_guard lock(context.weights->mutex);
  auto& entry = context.weights->weights[key];
  if (!entry) entry = pack_weight(b, width, context.threads);
  return entry;
}

class MatmulStep final : public Step {
 public:
  MatmulStep(const Kernel& kernel, std::span<const Binding> args, const Context& context, const MatmulAxes& axes,
             Operand a, Operand b, bool constant)
      : threads_(usable_threads(kernel, context)),
        a_(std::move(a)),
        b_(std::move(b)),
        rows_(a_.size(1)),
        columns_(b_.size(1)),
        depth_(a_.size(2)),
        blocking_(choose_blocking(a_, columns_)),
        width_(blocking_.tile.columns),
        ld_(blocking_.group_columns + 16),
        panels_(ceil_div(columns_, width_)),
        grid_(choose_grid(a_.size(0), rows_, panels_, threads_)),
        slices_(std::max<int64_t>(1, ceil_div(depth_, blocking_.slice_depth))),
        epilogue_(kernel, args, axes.batch, axes.rows, axes.columns, ld_, threads_) {
    if (constant) weight_ = cached_weight(b_, width_, context);
    finish_ = match_finish(kernel, args, axes);
    const int64_t row_floats = blocking_.rows == Blocking::by_row ? slices_ * blocking_.row_stride : depth_;
    const int64_t fitting = std::max(blocking_.tile.rows, max_block_floats / row_floats);
    block_rows_ = std::min({max_block_rows, fitting, ceil_div(rows_, grid_.rows)});
    a_bytes_ = blocking_.rows == Blocking::in_place ? 0 : align_up(block_rows_ * row_floats * 4);
    pass_bytes_ =
        weight_ && weight_->dtype == DType::f32 ? 0 : align_up(blocking_.slice_depth * blocking_.pass_columns * 4);
    thread_bytes_ = pass_bytes_ + align_up(block_rows_ * ld_ * 4) + (shares_rows() ? 0 : a_bytes_);
    scratch_bytes_ = static_cast<size_t>(thread_bytes_ * threads_ + (shares_rows() ? a_bytes_ : 0));
  }

  void run() override {
    if (shares_rows()) on_threads(threads_, [this](int thread) { pack_share(thread); });
    on_threads(threads_, [this](int thread) { part(thread); });
    epilogue_.check();
  }

  std::string describe() const override {
    return fmt::format("matmul {}x{}x{}x{} b {}{}{}", a_.size(0), rows_, columns_, depth_, dtype_name(b_.dtype),
                       weight_ ? " packed" : "", finish_ ? "" : " + epilogue");
  }

 private:
  // All threads read the same rows: they pack them together.
  bool shares_rows() const {
    return blocking_.rows != Blocking::in_place && grid_.panels > 1 && a_.size(0) == 1 && rows_ <= block_rows_;
  }
  void pack_share(int thread) {
    auto* a = reinterpret_cast<float*>(scratch_ + thread_bytes_ * threads_);
    for (int64_t slice = 0; slice < slices_; ++slice) pack_slice(0, 0, rows_, slice, a, thread, threads_);
  }

  // This thread's batches, rows and panels.
  void part(int thread) {
    const int64_t at_panels = thread % grid_.panels, at_rows = thread / grid_.panels % grid_.rows;
    const int64_t at_batch = thread / (grid_.panels * grid_.rows);
    if (at_batch >= grid_.batches) return;
    const int64_t batches = a_.size(0);
    const int64_t p0 = panels_ * at_panels / grid_.panels, p1 = panels_ * (at_panels + 1) / grid_.panels;
    const int64_t r0 = rows_ * at_rows / grid_.rows, r1 = rows_ * (at_rows + 1) / grid_.rows;
    if (p0 == p1) return;
    for (int64_t batch = batches * at_batch / grid_.batches; batch < batches * (at_batch + 1) / grid_.batches; ++batch)
      for (int64_t blocks = ceil_div(r1 - r0, block_rows_), i = 0; i < blocks; ++i)
        block(batch, r0 + (r1 - r0) * i / blocks, r0 + (r1 - r0) * (i + 1) / blocks, p0, p1, thread);
  }

  // Panels [p0, p1) of b at depths [k0, k1).
  struct Pass {
    int64_t p0, p1, k0, k1;
  };

  void block(int64_t batch, int64_t r0, int64_t r1, int64_t p0, int64_t p1, int thread) {
    std::byte* scratch = scratch_ + thread * thread_bytes_;
    auto* buffer = reinterpret_cast<float*>(scratch);
    auto* c = reinterpret_cast<float*>(scratch + pass_bytes_);
    const bool shared = shares_rows();
    auto* a =
        reinterpret_cast<float*>(shared ? scratch_ + thread_bytes_ * threads_ : scratch + thread_bytes_ - a_bytes_);
    const int64_t groups = ceil_div((p1 - p0) * width_, blocking_.group_columns), rows = r1 - r0;
    // Groups one after the other, in each the slices, in each the parts.
    struct Position {
      int64_t group = 0, slice = 0, part = 0;
    };
    auto first = [&](int64_t group) { return p0 + (p1 - p0) * group / groups; };
    auto parts = [&](int64_t group) {
      return ceil_div((first(group + 1) - first(group)) * width_, blocking_.pass_columns);
    };
    auto pass_at = [&](const Position& i) {
      const int64_t begin = first(i.group), panels = first(i.group + 1) - begin, count = parts(i.group);
      return Pass{begin + panels * i.part / count, begin + panels * (i.part + 1) / count, depth_ * i.slice / slices_,
                  depth_ * (i.slice + 1) / slices_};
    };
    auto after = [&](Position i) {
      if (++i.part < parts(i.group)) return i;
      if (++i.slice < slices_) return Position{i.group, i.slice, 0};
      return Position{i.group + 1, 0, 0};
    };
    for (Position i, next; i.group < groups; i = next) {
      next = after(i);
      const Pass g = pass_at(i);
      const bool packs = blocking_.rows != Blocking::in_place && !shared;
      if (packs && i.group == 0 && i.part == 0) pack_slice(batch, r0, r1, i.slice, a, 0, 1);
      BlockProduct product{.tile = blocking_.tile,
                           .a = a + slice_offset(i.slice, rows),
                           .rows = rows,
                           .c = c + (g.p0 - first(i.group)) * width_,
                           .ldc = ld_,
                           .add = g.k0 > 0};
      if (blocking_.rows == Blocking::in_place) product.a = reinterpret_cast<const float*>(a_.at(batch, r0, g.k0));
      set_panels(product, batch, g, buffer);
      if (weight_ && next.group < groups) set_next(product, batch, pass_at(next));
      const bool last = g.k1 == depth_;
      if (last && finish_) {
        product.finish = &*finish_;
        product.row = r0, product.column = g.p0 * width_;
      }
      if (blocking_.rows == Blocking::by_tile)
        multiply_blocks(product);
      else if (many_registers())
        multiply_wide(product);
      else
        multiply_rows(product, blocking_.row_stride);
      if (last && !finish_ && g.p1 == first(i.group + 1))
        epilogue_.run(c, batch, r0, r1, first(i.group) * width_, std::min(columns_, g.p1 * width_), thread);
    }
  }

  // Where a slice of `rows` packed rows begins.
  int64_t slice_offset(int64_t slice, int64_t rows) const {
    return rows * (blocking_.rows == Blocking::by_tile ? depth_ * slice / slices_ : slice * blocking_.row_stride);
  }

  // One of `shares` shares of a slice of rows [r0, r1).
  void pack_slice(int64_t batch, int64_t r0, int64_t r1, int64_t slice, float* a, int share, int shares) const {
    const int64_t rows = r1 - r0, k0 = depth_ * slice / slices_, k1 = depth_ * (slice + 1) / slices_;
    const int64_t tiles = ceil_div(rows, blocking_.tile.rows);
    const int64_t first = tiles * share / shares, last = tiles * (share + 1) / shares;
    float* dst = a + slice_offset(slice, rows);
    if (blocking_.rows == Blocking::by_row) {
      const int64_t begin = rows * first / tiles, end = rows * last / tiles, stride = blocking_.row_stride;
      return pack(a_, {batch, r0 + begin, r0 + end, k0, k1}, dst + begin * stride, stride);
    }
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = rows * i / tiles, end = rows * (i + 1) / tiles;
      pack_transposed(a_, {batch, r0 + begin, r0 + end, k0, k1}, dst + begin * (k1 - k0), end - begin);
    }
  }

  // Where the packed weight has depth k0 of panel p.
  const std::byte* packed(int64_t batch, int64_t p, int64_t k0) const {
    return weight_->data.get() + ((batch * panels_ + p) * depth_ + k0) * panel_row_bytes();
  }
  int64_t panel_row_bytes() const { return width_ * static_cast<int64_t>(dtype_size(weight_->dtype)); }

  // The panels as f32: the packed weight itself, or a copy in `buffer`.
  void set_panels(BlockProduct& product, int64_t batch, const Pass& g, float* buffer) const {
    product.columns = std::min(columns_, g.p1 * width_) - g.p0 * width_;
    product.depth = g.k1 - g.k0;
    if (weight_ && weight_->dtype == DType::f32) {
      product.panels = reinterpret_cast<const float*>(packed(batch, g.p0, g.k0));
      product.panel_stride = depth_ * width_;
      return;
    }
    product.panels = buffer;
    product.panel_stride = product.depth * width_;
    for (int64_t p = g.p0; p < g.p1; ++p, buffer += product.panel_stride)
      if (weight_)
        widen(weight_->dtype, packed(batch, p, g.k0), product.panel_stride, buffer);
      else
        pack_panel(b_, width_, batch, p * width_, g.k0, g.k1, buffer);
  }

  void set_next(BlockProduct& product, int64_t batch, const Pass& g) const {
    product.next = packed(batch, g.p0, g.k0);
    product.next_stride = depth_ * panel_row_bytes();
    product.next_bytes = (g.k1 - g.k0) * panel_row_bytes();
  }

  int threads_;
  Operand a_, b_;  // axes: batch, rows, depth; batch, columns, depth
  int64_t rows_, columns_, depth_;
  Blocking blocking_;
  int64_t width_, ld_, panels_;  // columns of a panel, distance of rows of sums, panels of b
  Grid grid_;
  int64_t slices_;  // of the depth
  TileEpilogue epilogue_;
  std::optional<Finish> finish_;  // instead of the epilogue
  std::shared_ptr<const PackedWeight> weight_;
  int64_t block_rows_ = 0, a_bytes_ = 0, pass_bytes_ = 0, thread_bytes_ = 0;
};

class EmptyStep final : public Step {
 public:
  void run() override {}
  std::string describe() const override { return "empty"; }
};

}  // namespace

// Smallest estimated cycles of the slowest thread: products, packing of a (done by every thread of a row part) and
// widening or reading of b (by every thread of a panel part).
Grid choose_grid(int64_t batches, int64_t rows, int64_t panels, int threads) {
  if (batches >= threads) return {threads, 1, 1};
  Grid best;
  double least = 0;
  for (int64_t r = 1; r <= threads; ++r) {
    const int64_t p = threads / r;
    const auto my_rows = static_cast<double>(ceil_div(rows, r)), my_panels = static_cast<double>(ceil_div(panels, p));
    const double cost = my_rows * my_panels + 0.5 * my_rows + 8 * my_panels;
    if (r == 1 || cost < least) best = {1, r, p}, least = cost;
  }
  return best;
}

int usable_threads(const Kernel& kernel, const Context& context) {
  const bool adds =
      std::any_of(kernel.stores.begin(), kernel.stores.end(), [](const Store& s) { return s.accumulate; });
  return adds ? 1 : std::max(1, context.threads);
}

MatmulAxes classify(const Kernel& kernel, const Access& a, const Access& b) {
  std::vector<int> batch, rows, columns, depth;
  for (int d = 0; d < static_cast<int>(kernel.space.size()); ++d) {
    const bool in_a = depends_on(a, d), in_b = depends_on(b, d);
    if (in_a && in_b)
      batch.push_back(d);
    else if (in_a)
      rows.push_back(d);
    else if (in_b)
      columns.push_back(d);
  }
  std::vector<int64_t> all = kernel.space;
  for (int64_t extent : kernel.contraction->reduce) {
    depth.push_back(static_cast<int>(all.size()));
    all.push_back(extent);
  }
  return {make_axis(all, batch), make_axis(all, rows), make_axis(all, columns), make_axis(all, depth)};
}

// Orders the dimensions of an axis so that it walks the access forward: long strides outside. The order of a sum is
// free.
static void walk_memory(Axis& axis, const Access& access) {
  auto stride = [&](int dim) {
    const auto d = static_cast<size_t>(dim);
    int64_t total = access.strides[d];
    for (const Guard& guard : access.guards) total += guard.stride * guard.coeffs[d];
    return std::abs(total);
  };
  std::vector<std::pair<int, int64_t>> dims;
  for (size_t i = 0; i < axis.dims.size(); ++i) dims.emplace_back(axis.dims[i], axis.extents[i]);
  std::stable_sort(dims.begin(), dims.end(), [&](auto a, auto b) { return stride(a.first) > stride(b.first); });
  for (size_t i = 0; i < dims.size(); ++i) std::tie(axis.dims[i], axis.extents[i]) = dims[i];
}

std::unique_ptr<Step> make_matmul_step(const Kernel& original, std::span<const Binding> args, const Context& context) {
  if (element_count(original.space) == 0) return std::make_unique<EmptyStep>();
  const Kernel kernel = simplify_space(original);
  const Access *left = &kernel.contraction->a, *right = &kernel.contraction->b;
  auto constant = [&](const Access* access) { return args[static_cast<size_t>(access->arg)].constant; };
  MatmulAxes axes = classify(kernel, *left, *right);
  // The product is symmetric: the weight goes right, and otherwise the operand with more columns than rows.
  const bool swap = constant(left) != constant(right)
                        ? constant(left)
                        : axes.rows.size() > axes.columns.size() && axes.columns.size() <= 4;
  if (swap) {
    std::swap(left, right);
    std::swap(axes.rows, axes.columns);
  }
  if (axes.rows.size() > gemv_max_rows) walk_memory(axes.depth, *left);
  auto operand = [&](const Access& access, const Axis& axis) {
    const auto arg = static_cast<size_t>(access.arg);
    return make_operand(access, kernel.args[arg].dtype, args[arg].data, {axes.batch, axis, axes.depth});
  };
  Operand a = operand(*left, axes.rows), b = operand(*right, axes.columns);
  if (auto step = make_gemv_step(kernel, args, context, axes, a, b)) return step;
  if (constant(right) && !beats_library(a, b.size(1)))
    if (auto step = make_product_step(kernel, args, context, axes, *left, a, b)) return step;
  return std::make_unique<MatmulStep>(kernel, args, context, axes, std::move(a), std::move(b), constant(right));
}

}  // namespace npusim::cpu
