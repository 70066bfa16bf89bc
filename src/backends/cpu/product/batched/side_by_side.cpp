// Small matrices transposed into vectors of equal elements and back, and their products, compiled once per instruction
// set.
#include "backends/cpu/product/batched/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/product/blocking.h"
#include "backends/cpu/product/epilogue.h"
#include "backends/cpu/product/simd.h"
#include "backends/cpu/vector_targets.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product/batched/side_by_side.cpp"
#include <hwy/foreach_target.h>

#include "backends/cpu/product/finish-inl.h"

#ifndef NPUSIM_SIDE_BY_SIDE
#define NPUSIM_SIDE_BY_SIDE
namespace npusim::cpu::product::batched {

// Matrices of one operand from some batch on. Their elements are among `span` neighbours, of which (i, j) is number
// i·step[0] + j·step[1].
struct Matrix {
  std::array<int64_t, 2> step{};
  int64_t span = 0;
};
// Where matrices of successive batches lie: data[offsets[batch]], or every `stride` elements where that is not 0.
// `left` batches, of which the first few are worked on.
struct Batches {
  DType dtype = DType::f32;
  const std::byte* data = nullptr;
  const int64_t* offsets = nullptr;
  int64_t stride = 0, left = 0;
};
struct Sizes {
  int64_t rows = 0, columns = 0, depth = 0;
};
// x·alpha + beta, then at least low and at most high; NaN stays NaN.
struct Ending {
  float alpha = 1, beta = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

}  // namespace npusim::cpu::product::batched
#endif

HWY_BEFORE_NAMESPACE();
namespace npusim::cpu::product::batched {
namespace HWY_NAMESPACE {
using namespace product::HWY_NAMESPACE;

constexpr int64_t lanes = finish_lanes;
constexpr int most_tile = HWY_TARGET == HWY_AVX3 ? 4 : 3;  // rows and columns of sums in registers

// to[e·lanes + i] = row(i)[e] for e < span, which are at least four.
template <class Type, class Row>
HWY_INLINE void transpose_in(Row&& row, int64_t span, float* to) {
  for (int64_t e = 0; e < span; e += 4) {
    const int64_t at = std::min(e, span - 4);  // the last four, some of them again
    VF column[4];
    load_columns<Type>([&](int64_t i) HWY_ATTR { return row(i) + at; }, column);
    for (int64_t n = 0; n < 4; ++n) hn::StoreU(column[n], F(), to + (at + n) * lanes);
  }
}
template <class Type>
HWY_INLINE void transpose_in_few(const Batches& from, const typename Type::T* data, int64_t there, int64_t span,
                                 float* to) {
  using T = typename Type::T;
  // Four elements, too, where there are other batches behind those of the vector.
  if (from.stride > 0 && from.left >= lanes + 3) {
    VF column[4];
    data += from.offsets[0];
    load_columns<Type>([&](int64_t i) HWY_ATTR { return data + i * from.stride; }, column);
    for (int64_t n = 0; n < span; ++n) hn::StoreU(column[n], F(), to + n * lanes);
    return;
  }
  for (int64_t i = 0; i < lanes; ++i) {
    const T* row = data + from.offsets[std::min(i, there - 1)];
    for (int64_t n = 0; n < span; ++n) to[n * lanes + i] = Type::one(row[n]);
  }
}
// Brings what the next vector of batches has into the cache: so many streams are no pattern that the hardware sees.
void fetch_batches(const Batches& from, int64_t span, bool writes) {
  const auto size = static_cast<int64_t>(dtype_size(from.dtype));
  const int64_t batches = std::min(lanes, from.left);
  const auto fetch = [&](const std::byte* at) {
    if (writes)
      __builtin_prefetch(at, 1, 3);
    else
      __builtin_prefetch(at, 0, 3);
  };
  if (from.stride == span) {
    for (int64_t at = 0; at < batches * span * size; at += 64) fetch(from.data + from.offsets[0] * size + at);
    return;
  }
  for (int64_t i = 0; i < batches; ++i)
    for (int64_t at = 0; at < span * size; at += 64) fetch(from.data + from.offsets[i] * size + at);
}
// Lanes without a batch repeat the last one.
void load_batches(const Batches& from, int64_t there, int64_t span, float* to) {
  with_type(from.dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* data = reinterpret_cast<const typename Type::T*>(from.data);
    if (span < 4) return transpose_in_few<Type>(from, data, there, span, to);
    if (there == lanes && from.stride != 0) {
      const auto* first = data + from.offsets[0];
      return transpose_in<Type>([&](int64_t i) HWY_ATTR { return first + i * from.stride; }, span, to);
    }
    transpose_in<Type>([&](int64_t i) HWY_ATTR { return data + from.offsets[std::min(i, there - 1)]; }, span, to);
  });
}

// data[offsets[i] + e] = from[e·lanes + i] for e < span.
void store_batches(const Batches& to, int64_t there, int64_t span, const float* from) {
  auto* data = const_cast<float*>(reinterpret_cast<const float*>(to.data));
  if (span == 1 && to.stride == 1) return store_first(hn::LoadU(F(), from), data + to.offsets[0], there);
  const auto one_by_one = [&](int64_t i) {
    for (int64_t e = 0; e < span; ++e) data[to.offsets[i] + e] = from[e * lanes + i];
  };
#if HWY_TARGET != HWY_SCALAR
  // Of fewer than four elements the fourth is the next one's, which is stored after it; the last has no next.
  const bool wide = span >= 4 || (span > 1 && to.stride == span);
  if (wide) {
    const hn::Full128<float> four;
    HWY_ALIGN float block[4 * lanes];
    const int64_t last = span >= 4 ? there : there - 1;
    for (int64_t e = 0; e < span; e += 4) {
      const int64_t at = std::max<int64_t>(0, std::min(e, span - 4));
      const auto row = [&](int64_t n) HWY_ATTR { return hn::LoadU(F(), from + std::min(at + n, span - 1) * lanes); };
      VF transposed[4];
      transpose_blocks(row(0), row(1), row(2), row(3), transposed);
      for (int64_t n = 0; n < 4; ++n) hn::Store(transposed[n], F(), block + n * lanes);
      for (int64_t i = 0; i < last; ++i)
        hn::StoreU(hn::Load(four, block + i % 4 * lanes + i / 4 * 4), four, data + to.offsets[i] + at);
    }
    if (last < there) one_by_one(last);
    return;
  }
#endif
  for (int64_t i = 0; i < there; ++i) one_by_one(i);
}

template <int rows, int columns>
void multiply_tile(const float* a, const Matrix& at_a, const float* b, const Matrix& at_b, int64_t depth, float* c,
                   const Matrix& at_c) {
  VF sum[rows][columns];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sum[i][j] = hn::Zero(F());
  for (int64_t k = 0; k < depth; ++k, a += at_a.step[1] * lanes, b += at_b.step[1] * lanes) {
    VF y[columns];
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) y[j] = hn::Load(F(), b + j * at_b.step[0] * lanes);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const VF x = hn::Load(F(), a + i * at_a.step[0] * lanes);
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sum[i][j] = hn::MulAdd(x, y[j], sum[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) hn::Store(sum[i][j], F(), c + (i * at_c.step[0] + j * at_c.step[1]) * lanes);
}

using Tile = void (*)(const float*, const Matrix&, const float*, const Matrix&, int64_t, float*, const Matrix&);
template <int... i>
constexpr std::array<Tile, sizeof...(i)> tiles_of(std::integer_sequence<int, i...>) {
  return {multiply_tile<i / most_tile + 1, i % most_tile + 1>...};
}

// c(i, j) = Σ_k a(i, k) · b(j, k), the sums in order.
void multiply_batches(const Sizes& sizes, const float* a, const Matrix& at_a, const float* b, const Matrix& at_b,
                      float* c, const Matrix& at_c) {
  static constexpr auto tiles = tiles_of(std::make_integer_sequence<int, most_tile * most_tile>());
  for (int64_t i = 0; i < sizes.rows; i += most_tile)
    for (int64_t j = 0; j < sizes.columns; j += most_tile) {
      const int64_t rows = std::min<int64_t>(most_tile, sizes.rows - i),
                    columns = std::min<int64_t>(most_tile, sizes.columns - j);
      tiles[static_cast<size_t>((rows - 1) * most_tile + columns - 1)](
          a + i * at_a.step[0] * lanes, at_a, b + j * at_b.step[0] * lanes, at_b, sizes.depth,
          c + (i * at_c.step[0] + j * at_c.step[1]) * lanes, at_c);
    }
}

// c(i, j) += x(i, j)
void add_batches(const Sizes& sizes, const float* x, const Matrix& at_x, float* c, const Matrix& at_c) {
  for (int64_t i = 0; i < sizes.rows; ++i)
    for (int64_t j = 0; j < sizes.columns; ++j) {
      float* to = c + (i * at_c.step[0] + j * at_c.step[1]) * lanes;
      const float* from = x + (i * at_x.step[0] + j * at_x.step[1]) * lanes;
      hn::Store(hn::Add(hn::Load(F(), to), hn::Load(F(), from)), F(), to);
    }
}
void end_batches(const Ending& ending, int64_t span, float* c) {
  const VF alpha = hn::Set(F(), ending.alpha), beta = hn::Set(F(), ending.beta), low = hn::Set(F(), ending.low),
           high = hn::Set(F(), ending.high);
  const bool moves = ending.alpha != 1 || ending.beta != 0;
  for (int64_t e = 0; e < span; ++e) {
    VF x = hn::Load(F(), c + e * lanes);
    if (moves) x = hn::Add(hn::Mul(x, alpha), beta);
    hn::Store(clamp(x, low, high), F(), c + e * lanes);
  }
}
int64_t batch_lanes() { return lanes; }

}  // namespace HWY_NAMESPACE
}  // namespace npusim::cpu::product::batched
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim::cpu::product::batched {
HWY_EXPORT(fetch_batches);
HWY_EXPORT(load_batches);
HWY_EXPORT(store_batches);
HWY_EXPORT(multiply_batches);
HWY_EXPORT(add_batches);
HWY_EXPORT(end_batches);
HWY_EXPORT(batch_lanes);

namespace {

constexpr int64_t most_span = 256;          // elements of a matrix
constexpr int64_t most_floats = 640;        // of both operands and the result, of one batch,
constexpr int64_t most_floats_of_16 = 320;  // and where 16 registers hold fewer sums
constexpr int64_t chunk_floats = 4096;      // of results that meet their epilogue together

// How an operand's matrices lie; nullopt where its elements are not among few neighbours.
std::optional<Matrix> matrix_of(const Operand& o) {
  if (!o.bounds.empty() || (o.dtype != DType::f32 && o.dtype != DType::f16 && o.dtype != DType::bf16))
    return std::nullopt;
  Matrix m;
  m.span = 1;
  for (int axis : {1, 2}) {
    const int64_t step = o.size(axis) == 1 ? 0 : o.step[static_cast<size_t>(axis)];
    if (step < 0) return std::nullopt;
    m.step[static_cast<size_t>(axis - 1)] = step;
    m.span += step * (o.size(axis) - 1);
  }
  const int64_t elements = o.size(1) * o.size(2);
  if (m.span > most_span || m.span > 2 * elements + 4) return std::nullopt;
  return m;
}
// Whether every neighbour is an element.
bool is_dense(const Matrix& m, int64_t rows, int64_t columns) {
  const auto [row, column] = m.step;
  return m.span == rows * columns &&
         ((rows == 1 || row == columns) ? columns == 1 || column == 1 : row == 1 && (columns == 1 || column == rows));
}

// An operation on the results: something added, or an Ending.
struct Operation {
  Operand added;
  Matrix matrix;
  bool adds = false;
  Ending ending;
};
struct Ends {
  Operand out;
  Matrix matrix;
  std::vector<Operation> operations;
};

// What follows the products, where it is of vectors; nullopt: anything else, for loops.
std::optional<Ends> match_ends(const Problem& p, const Matrices& m) {
  const size_t known = m.axes.batch.dims.size() + m.axes.rows.dims.size() + m.axes.columns.dims.size();
  if (!p.chain || known != m.kernel.space.size()) return std::nullopt;
  const std::array<Axis, 3> axes{m.axes.batch, m.axes.rows, m.axes.columns};
  const auto bind = [&](const Access& access) {
    const auto arg = static_cast<size_t>(access.arg);
    return make_operand(access, m.kernel.args[arg].dtype, p.args[arg].data, axes);
  };
  const auto plain = [](const Access& access) { return access.guards.empty() && access.terms.empty(); };
  Ends ends;
  if (!plain(m.kernel.stores[0].access)) return std::nullopt;
  ends.out = bind(m.kernel.stores[0].access);
  const auto out = matrix_of(ends.out);
  if (!out || ends.out.dtype != DType::f32 || !is_dense(*out, ends.out.size(1), ends.out.size(2))) return std::nullopt;
  ends.matrix = *out;
  for (const EpilogueOp& op : *p.chain) {
    Operation operation;
    if (op.add >= 0) {
      const Access& access = m.kernel.accesses[static_cast<size_t>(op.add)];
      if (!plain(access)) return std::nullopt;
      operation.adds = true, operation.added = bind(access);
      const auto matrix = matrix_of(operation.added);
      if (!matrix) return std::nullopt;
      operation.matrix = *matrix;
    } else if (op.activation == Activation::linear) {
      operation.ending.alpha = op.alpha, operation.ending.beta = op.beta;
    } else if (op.activation == Activation::clip) {
      operation.ending.low = op.alpha, operation.ending.high = op.beta;
    } else {
      return std::nullopt;
    }
    ends.operations.push_back(std::move(operation));
  }
  return ends;
}

// Rows of all batches, one after the other.
Axis joined(const Axis& batch, const Axis& rows) {
  Axis all = batch;
  all.dims.insert(all.dims.end(), rows.dims.begin(), rows.dims.end());
  all.extents.insert(all.extents.end(), rows.extents.begin(), rows.extents.end());
  return all;
}

class SideBySideStep final : public BoundStep {
 public:
  SideBySideStep(const Problem& p, Matrices& m, const Matrix& a, const Matrix& b, std::optional<Ends> ends)
      : a_(std::move(m.a)),
        b_(std::move(m.b)),
        at_a_(a),
        at_b_(b),
        sizes_{a_.size(1), b_.size(1), a_.size(2)},
        batches_(a_.size(0)),
        lanes_(HWY_DYNAMIC_DISPATCH(batch_lanes)()),
        ends_(std::move(ends)) {
    const int64_t results = sizes_.rows * sizes_.columns;
    at_c_ = {{sizes_.columns, 1}, results};
    if (ends_) {
      at_c_ = ends_->matrix;
      for (const Operation& operation : ends_->operations) added_ = std::max(added_, operation.matrix.span);
    }
    chunk_ = ends_ ? lanes_ : ceil_div(std::max(lanes_, chunk_floats / results), lanes_) * lanes_;
    threads_ = static_cast<int>(std::min<int64_t>(usable_threads(p.kernel, p.context), ceil_div(batches_, chunk_)));
    if (!ends_) {
      for (int64_t i = 0; i < chunk_; ++i) offsets_.push_back(i * results);
      epilogue_.emplace(m.kernel, p.args, Axis{}, joined(m.axes.batch, m.axes.rows), m.axes.columns, sizes_.columns,
                        threads_);
    }
    thread_floats_ =
        (at_a_.span + at_b_.span + results + added_) * lanes_ + (ends_ ? 0 : ceil_div(chunk_ * results, 16) * 16);
    scratch_bytes_ = static_cast<size_t>(thread_floats_ * threads_) * 4;
  }

  void run() override {
    on_threads(threads_, [this](int thread) {
      float* scratch = reinterpret_cast<float*>(scratch_) + thread * thread_floats_;
      const int64_t chunks = ceil_div(batches_, chunk_);
      for (int64_t i = chunks * thread / threads_; i < chunks * (thread + 1) / threads_; ++i)
        chunk(i * chunk_, std::min(batches_, (i + 1) * chunk_), scratch, thread);
    });
    if (epilogue_) epilogue_->check();
  }

  std::string describe() const override {
    return fmt::format("matmul {}x{}x{}x{} side by side{}", batches_, sizes_.rows, sizes_.columns, sizes_.depth,
                       ends_ ? "" : " + epilogue");
  }

 private:
  Batches batches_of(const Operand& o, int64_t batch) const {
    return {o.dtype, o.data + o.offset * static_cast<int64_t>(dtype_size(o.dtype)), o.offsets[0].data() + batch,
            std::max<int64_t>(0, o.step[0]), batches_ - batch};
  }

  void chunk(int64_t first, int64_t last, float* scratch, int thread) {
    float *a = scratch, *b = a + at_a_.span * lanes_, *c = b + at_b_.span * lanes_, *added = c + at_c_.span * lanes_;
    float* results = added + added_ * lanes_;
    for (int64_t batch = first; batch < last; batch += lanes_) {
      const int64_t there = std::min(lanes_, last - batch);
      HWY_DYNAMIC_DISPATCH(load_batches)(batches_of(a_, batch), there, at_a_.span, a);
      HWY_DYNAMIC_DISPATCH(load_batches)(batches_of(b_, batch), there, at_b_.span, b);
      if (const int64_t next = batch + lanes_; next < batches_) {
        HWY_DYNAMIC_DISPATCH(fetch_batches)(batches_of(a_, next), at_a_.span, false);
        HWY_DYNAMIC_DISPATCH(fetch_batches)(batches_of(b_, next), at_b_.span, false);
      }
      if (ends_) HWY_DYNAMIC_DISPATCH(fetch_batches)(batches_of(ends_->out, batch), at_c_.span, true);
      HWY_DYNAMIC_DISPATCH(multiply_batches)(sizes_, a, at_a_, b, at_b_, c, at_c_);
      if (ends_) {
        end(batch, there, c, added);
        continue;
      }
      const Batches to{DType::f32, reinterpret_cast<const std::byte*>(results), offsets_.data() + (batch - first), 0,
                       last - batch};
      HWY_DYNAMIC_DISPATCH(store_batches)(to, there, at_c_.span, c);
    }
    if (!ends_) epilogue_->run(results, 0, first * sizes_.rows, last * sizes_.rows, 0, sizes_.columns, thread);
  }

  void end(int64_t batch, int64_t there, float* c, float* added) const {
    for (const Operation& operation : ends_->operations) {
      if (!operation.adds) {
        HWY_DYNAMIC_DISPATCH(end_batches)(operation.ending, at_c_.span, c);
        continue;
      }
      HWY_DYNAMIC_DISPATCH(load_batches)(batches_of(operation.added, batch), there, operation.matrix.span, added);
      HWY_DYNAMIC_DISPATCH(add_batches)(sizes_, added, operation.matrix, c, at_c_);
    }
    HWY_DYNAMIC_DISPATCH(store_batches)(batches_of(ends_->out, batch), there, at_c_.span, c);
  }

  Operand a_, b_;
  Matrix at_a_, at_b_, at_c_;
  Sizes sizes_;
  int64_t batches_, lanes_;
  std::optional<Ends> ends_;  // none: an epilogue, of a chunk of results
  std::optional<TileEpilogue> epilogue_;
  std::vector<int64_t> offsets_;  // of the results of a chunk
  int64_t added_ = 0, chunk_ = 0, thread_floats_ = 0;
  int threads_ = 1;
};

}  // namespace

Answer make_side_by_side_step(Problem& p) {
  Matrices& m = matrices_of(p);
  const Operand &a = m.a, &b = m.b;
  if (a.size(0) == 1) return decline("one product");
  if (a.size(2) == 0) return decline("a sum of nothing");
  const auto at_a = matrix_of(a), at_b = matrix_of(b);
  const int64_t most = many_registers() ? most_floats : most_floats_of_16;
  if (!at_a || !at_b || at_a->span + at_b->span + a.size(1) * b.size(1) > most || a.size(1) * b.size(1) > most_span)
    return decline(
        fmt::format("{} matrices of {}x{}x{} that are large or not dense", a.size(0), a.size(1), b.size(1), a.size(2)));
  return accept(std::make_unique<SideBySideStep>(p, m, *at_a, *at_b, match_ends(p, m)));
}

}  // namespace npusim::cpu::product::batched
#endif
