// Contractions spelled out as rows compute what the interpreter says of the contraction: all kinds, with epilogues,
// guards, computed indices, 16-bit types, infinities and NaN.
#include "kernel/fuse/unfuse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/tensor.h"
#include "kernel/builder.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "kernel/facts/score_kernel.h"

namespace npusim {
namespace {

using Coords = std::vector<Coord>;
using Memory = std::vector<HostTensor>;

struct Draw {
  std::mt19937_64 random;
  int64_t whole(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random); }
  template <class T>
  T one(std::initializer_list<T> of) {
    return of.begin()[whole(0, static_cast<int64_t>(of.size()) - 1)];
  }
};

// Floats around 0, some of them special; integers that are indices into `extent`.
Memory memory_of(const Kernel& k, Draw& d, bool specials, int64_t extent) {
  Memory memory;
  for (const KernelArg& arg : k.args) {
    HostTensor t = make_tensor({arg.dtype, {arg.elements}});
    for (int64_t i = 0; i < arg.elements; ++i) {
      if (!is_float(arg.dtype)) {
        store_int(t.data.data(), arg.dtype, i, d.whole(0, arg.dtype == DType::boolean ? 1 : extent - 1));
        continue;
      }
      const double inf = std::numeric_limits<double>::infinity();
      double x = std::uniform_real_distribution<double>(-2, 2)(d.random);
      if (specials && d.chance(0.02)) x = d.one({inf, -inf, std::nan(""), 0.0, -0.0, 1e30});
      store_double(t.data.data(), arg.dtype, i, x);
    }
    if (arg.updates >= 0) t.data = memory[static_cast<size_t>(arg.updates)].data;
    memory.push_back(std::move(t));
  }
  return memory;
}

void run(const Kernel& k, Memory& memory, const std::vector<int>& values, bool single) {
  std::vector<void*> args;
  for (int v : values) args.push_back(memory[static_cast<size_t>(v)].data.data());
  evaluate(k, args, single);
}

void check_unfused(const Kernel& kernel, Draw& d, bool specials, int64_t extent = 1) {
  for (const std::string& problem : check_kernel(kernel)) FAIL() << problem << "\n" << to_text(kernel);
  const Unfused unfused = unfuse(kernel);
  for (const BoundKernel& step : unfused.steps) {
    EXPECT_EQ(step.kernel.contraction, nullptr);
    for (const std::string& problem : check_kernel(step.kernel)) FAIL() << problem << "\n" << to_text(step.kernel);
  }
  const Memory given = memory_of(kernel, d, specials, extent);
  for (const bool single : {false, true}) {
    Memory expected = given, found = given;
    for (const Unfused::Scratch& s : unfused.scratch) found.push_back(make_tensor({s.dtype, {s.elements}}));
    std::vector<int> values;
    for (size_t i = 0; i < kernel.args.size(); ++i) values.push_back(static_cast<int>(i));
    run(kernel, expected, values, single);
    for (const BoundKernel& step : unfused.steps) run(step.kernel, found, step.values, single);
    // One row adds in the interpreter's order; scratch is rounded to float, and so is `single` after each sum.
    const bool exact = unfused.scratch.empty() && !single;
    for (size_t n = 0; n < kernel.args.size(); ++n) {
      const DType dtype = kernel.args[n].dtype;
      const double step = !is_float(dtype) ? 0 : dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 0x1p-9 : 0x1p-6;
      for (int64_t i = 0; i < kernel.args[n].elements; ++i) {
        const double a = load_double(expected[n].data.data(), dtype, i),
                     b = load_double(found[n].data.data(), dtype, i);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        ASSERT_FALSE(exact) << "argument " << n << " element " << i << ": " << a << ", " << b << "\n"
                            << to_text(kernel);
        ASSERT_LE(std::fabs(a - b), step * std::max(8.0, std::fabs(a)))
            << "argument " << n << " element " << i << ": " << a << ", " << b << "\n"
            << to_text(kernel);
      }
    }
  }
}

DType float_type(Draw& d) { return d.one({DType::f32, DType::f32, DType::f16, DType::bf16}); }

// A random epilogue of a leaf over the space, with a gathered row of a table, and where it is stored.
void finish_epilogue(KernelBuilder& b, Ex leaf, const Shape& space, Draw& d, int64_t extent) {
  Ex x = leaf;
  if (d.chance(0.5)) x = x + b.load_broadcast(b.input({float_type(d), {space.back()}}));
  if (d.chance(0.3)) x = max(x, 0.0);
  if (d.chance(0.3)) x = x / (1.0 + exp(-x));
  if (d.chance(0.3)) x = select(b.index(0) < 2, x, x * -0.5);
  const bool gathers = d.chance(0.4), scatters = d.chance(0.3), adds = d.chance(0.3);
  Coords at;
  for (size_t i = 0; i < space.size(); ++i) at.emplace_back(b.dim(static_cast<int>(i)));
  Shape shape = space;
  if (gathers || scatters) {
    const Coords row{at[0]};
    const Ex index = b.load(b.input({DType::i64, {space[0]}}), row);
    if (gathers) x = x * b.load(b.input({float_type(d), {extent, space.back()}}), Coords{Coord(index), at.back()});
    if (scatters) {
      at[0] = Coord(index);
      shape[0] = extent;
    }
  }
  const TensorType type{float_type(d), shape};
  const bool accumulates = adds || scatters;  // rows that meet are added
  const int old = accumulates ? b.input(type) : -1;
  const Ex limit = b.load_broadcast(b.input({DType::f32, {}}));
  b.store(b.output(type, old), at, x, accumulates ? std::optional(Reduction::sum) : std::nullopt);
  if (d.chance(0.2)) b.store(b.output({DType::boolean, space}), limit < leaf);
}

TEST(Unfuse, RandomProducts) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draw d{std::mt19937_64(seed)};
    const int64_t batch = d.whole(1, 3), m = d.whole(1, 5), n = d.whole(1, 5), extent = d.whole(1, 4);
    const Shape reduce = d.chance(0.3) ? Shape{d.whole(0, 3), d.whole(1, 4)} : Shape{d.whole(0, 9)};
    const Shape space{batch, m, n};
    KernelBuilder b(space);
    Shape a_shape{batch, m}, b_shape{d.chance(0.5) ? 1 : batch, n};
    Coords a_at{b.dim(0), b.dim(1)}, b_at{b_shape[0] == 1 ? b.dim(0) * 0 : b.dim(0), b.dim(2)};
    for (size_t i = 0; i < reduce.size(); ++i) {
      a_shape.push_back(reduce[i]), b_shape.push_back(reduce[i]);
      a_at.emplace_back(b.dim(3 + static_cast<int>(i))), b_at.emplace_back(b.dim(3 + static_cast<int>(i)));
    }
    const int x = b.input({float_type(d), a_shape}), y = b.input({float_type(d), b_shape});
    finish_epilogue(b, b.contract(ContractionKind::matmul, reduce, x, a_at, y, b_at), space, d, extent);
    SCOPED_TRACE(seed);
    check_unfused(b.finish("product"), d, d.chance(0.5), extent);
    if (HasFailure()) return;
  }
}

// Outside its guards an image is 0, and 0 times an infinite weight is NaN.
TEST(Unfuse, RandomConvolutions) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw d{std::mt19937_64(seed)};
    const int64_t n = d.whole(1, 2), groups = d.whole(1, 2), in = d.whole(1, 3), out = d.whole(1, 3);
    const int64_t size = d.whole(3, 6), kernel = d.whole(1, 3), stride = d.whole(1, 2), pad = d.whole(0, kernel);
    const int64_t results = (size + 2 * pad - kernel) / stride + 1, extent = d.whole(1, 3);
    const Shape space{n, groups, out, results, results};
    KernelBuilder b(space);
    const int image = b.input({float_type(d), {n, groups * in, size, size}});
    const int weight = b.input({float_type(d), {groups * out, in, kernel, kernel}});
    const Coords image_at{b.dim(0), b.dim(1) * in + b.dim(5), b.dim(3) * stride + b.dim(6) + -pad,
                          b.dim(4) * stride + b.dim(7) + -pad};
    const Coords weight_at{b.dim(1) * out + b.dim(2), b.dim(5), b.dim(6), b.dim(7)};
    const Ex leaf = b.contract(ContractionKind::conv, {in, kernel, kernel}, image, image_at, weight, weight_at);
    finish_epilogue(b, leaf, space, d, extent);
    SCOPED_TRACE(seed);
    check_unfused(b.finish("conv"), d, d.chance(0.5), extent);
    if (HasFailure()) return;
  }
}

TEST(Unfuse, RandomAttention) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw d{std::mt19937_64(seed)};
    const int64_t heads = d.whole(1, 2), queries = d.whole(1, 4), keys = d.whole(0, 6), depth = d.whole(1, 5),
                  columns = d.whole(1, 4), extent = d.whole(1, 4);
    const DType type = float_type(d);
    const TensorType q_type{type, {heads, queries, depth}}, k_type{type, {heads, keys, depth}},
        v_type{type, {heads, keys, columns}}, f_type{DType::f32, {queries, keys}},
        m_type{DType::boolean, {queries, keys}};
    const Shape scores{heads, queries, keys}, space{heads, queries, columns};
    KernelBuilder s(scores), b(space);
    for (KernelBuilder* builder : {&s, &b})
      for (const TensorType& t : {q_type, k_type, v_type, f_type, m_type}) builder->input(t);
    Ex score = s.contract(ContractionKind::matmul, {depth}, 0, Coords{s.dim(0), s.dim(1), s.dim(3)}, 1,
                          Coords{s.dim(0), s.dim(2), s.dim(3)});
    score = score * 0.5;
    if (d.chance(0.3)) score = score + s.load_broadcast(3);
    const double masked = d.one({-std::numeric_limits<double>::infinity(), -1e30});
    if (d.chance(0.5)) score = select(s.load_broadcast(4), score, masked);
    if (d.chance(0.3)) score = select(s.index(2) <= s.index(1), score, masked);
    s.store(s.output({DType::f32, scores}), score);
    const bool counts = d.chance(0.4);  // as many keys as an expression says, which may be different ones for each row
    if (counts)
      s.store(s.output({DType::i64, scores}),
              s.cast(s.load(4, Coords{Coord(int64_t{0}), Coord(int64_t{0})}), Scalar::i64) * 2 + s.index(1) +
                  d.whole(-2, 3));
    const Score inner = to_score(s.finish("score"));
    const Coords v_at{b.dim(0), b.dim(3), b.dim(2)};
    finish_epilogue(b, b.contract(ContractionKind::attention, {keys}, 2, v_at, 2, v_at), space, d, extent);
    Kernel kernel = b.finish("attention");
    auto contraction = std::make_shared<Contraction>(*kernel.contraction);
    contraction->masked_rows_are_zero = d.chance(0.5);
    contraction->score = std::make_shared<Score>(inner);
    kernel.contraction = contraction;
    if (d.chance(0.4)) store_logs(kernel);
    SCOPED_TRACE(seed);
    check_unfused(kernel, d, d.chance(0.5), extent);
    if (HasFailure()) return;
  }
}

TEST(Unfuse, RowsAndScratchAreWhatTheySay) {
  KernelBuilder b({4, 3});
  const int x = b.input({DType::f32, {4, 8}}), y = b.input({DType::f32, {3, 8}});
  const Ex leaf =
      b.contract(ContractionKind::matmul, {8}, x, Coords{b.dim(0), b.dim(2)}, y, Coords{b.dim(1), b.dim(2)});
  b.store(b.output({DType::f32, {4, 3}}), leaf);
  const Kernel kernel = b.finish("mm");
  const Unfused product = unfuse(kernel);
  ASSERT_EQ(product.steps.size(), 1U);
  EXPECT_TRUE(product.scratch.empty());
  EXPECT_EQ(product.steps[0].kernel.space, (Shape{4, 3, 8}));
  EXPECT_EQ(product.steps[0].kernel.row_dims, 1);
  EXPECT_EQ(product.steps[0].kernel.name, "mm");
  const Unfused same = unfuse(product.steps[0].kernel);
  ASSERT_EQ(same.steps.size(), 1U);
  EXPECT_EQ(to_text(same.steps[0].kernel), to_text(product.steps[0].kernel));
}

}  // namespace
}  // namespace npusim
