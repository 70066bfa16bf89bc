// Reductions of distances that run as products do, against the scalar interpreter: sizes, strides, dtypes, batches,
// what is done with them, and kernels that are left to loops.
#include "backends/cpu/product/reductions/distances.h"

#include <limits>

#include "backends/cpu/check_step.h"
#include "backends/cpu/product/check.h"

namespace npusim::cpu::product {
namespace {

using Coords = std::vector<Coord>;

// Of the operands: normal, some rows of b next to rows of a, all near each other, of sums that are no normal floats or
// no floats, or all the same.
enum class Values { normal, some_near, near, tiny, huge, equal };

struct Form {
  int64_t batch = 1, rows = 20, columns = 30, depth = 10;
  DType a = DType::f32, b = DType::f32, out = DType::f32;
  int kind = 0;  // of the distance
  bool columns_apart = false;
  Values values = Values::normal;
};

// Element i of both operands, of rows of `depth`.
double changed(const Form& f, double a, int64_t i, size_t operand, double x) {
  switch (f.values) {
    case Values::normal:
      return x;
    case Values::some_near:
      return operand == 1 && i / f.depth % 9 == 0 ? a + x * 1e-3 : x;
    case Values::near:
      return 100 + x;
    case Values::tiny:
      return x * 1e-20;
    case Values::huge:
      return 2e19 + x * 1e13;
    case Values::equal:
      return 3;
  }
  return x;
}

Kernel distances(const Form& f) {
  KernelBuilder k({f.batch, f.rows, f.columns, f.depth}, 1);
  const int a = k.input({f.a, {f.batch, f.rows, f.depth}});
  const int b = k.input({f.b, f.columns_apart ? Shape{f.depth, f.columns} : Shape{f.columns, f.depth}});
  const int scale = k.input({DType::f32, {f.rows, f.columns}}), out = k.output({f.out, {f.batch, f.rows, f.columns}});
  const Ex apart = k.load(a, Coords{k.dim(0), k.dim(1), k.dim(3)}) -
                   k.load(b, f.columns_apart ? Coords{k.dim(3), k.dim(2)} : Coords{k.dim(2), k.dim(3)});
  Ex x = k.reduce(f.kind == 2 ? Reduction::max : Reduction::sum, f.kind == 0 ? apart * apart : abs(apart));
  if (f.kind == 0) x = sqrt(x);
  k.store(out, Coords{k.dim(0), k.dim(1), k.dim(2)}, x * k.load(scale, Coords{k.dim(1), k.dim(2)}) - 1.0);
  return k.finish("distances");
}

bool run_as_interpreted(const Form& f, bool special, int threads) {
  const Kernel kernel = distances(f);
  std::mt19937 random(5);
  std::vector<std::vector<std::byte>> memory;
  for (const KernelArg& arg : kernel.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype) + 64);
    for (int64_t i = 0; i < arg.elements; ++i)
      store_double(memory.back().data(), arg.dtype, i, std::normal_distribution<double>(0, 2)(random));
  }
  for (size_t operand = 0; operand < 2; ++operand)
    for (int64_t i = 0; i < kernel.args[operand].elements; ++i) {
      const double a = load_double(memory[0].data(), f.a, i % kernel.args[0].elements);
      const DType dtype = kernel.args[operand].dtype;
      store_double(memory[operand].data(), dtype, i,
                   changed(f, a, i, operand, load_double(memory[operand].data(), dtype, i)));
    }
  if (special) {
    store_double(memory[0].data(), f.a, 1, std::nan(""));
    store_double(memory[1].data(), f.b, 2, -std::numeric_limits<double>::infinity());
  }
  std::vector<std::vector<std::byte>> expected = memory;
  std::vector<void*> args;
  for (auto& argument : expected) args.push_back(argument.data());
  evaluate(kernel, args, false);
  if (!run_step(kernel, memory, threads, reductions::make_distances_step)) return false;
  const double unit = f.out == DType::f32 ? 2e-6 : 0x1p-7;
  for (int64_t i = 0; i < kernel.args[3].elements; ++i) {
    const double want = load_double(expected[3].data(), f.out, i), got = load_double(memory[3].data(), f.out, i);
    const bool same =
        want == got || (std::isnan(want) && std::isnan(got)) || std::fabs(want - got) <= unit * (std::fabs(want) + 1);
    EXPECT_TRUE(same) << i << ": " << got << ", expected " << want << "\n" << to_text(kernel);
    if (!same) break;
  }
  return true;
}

TEST(Distances, AreThoseOfTheInterpreter) {
  on_every_instruction_set([] {
    for (int kind = 0; kind < 3; ++kind)
      for (const bool special : {false, true}) {
        EXPECT_TRUE(run_as_interpreted({.kind = kind}, special, 1));
        EXPECT_TRUE(run_as_interpreted({3, 8, 9, 4, DType::f16, DType::f32, DType::f32, kind}, special, 2));
        EXPECT_TRUE(run_as_interpreted({2, 70, 33, 65, DType::f32, DType::bf16, DType::bf16, kind}, special, 2));
        EXPECT_TRUE(run_as_interpreted({1, 13, 130, 300, DType::f32, DType::f32, DType::f16, kind, true}, special, 3));
      }
  });
}

// Squares of long vectors come from products: also of those that are near each other, far from 0, tiny, huge, and of
// lengths that overflow.
TEST(Distances, FromProductsAreThoseOfTheInterpreter) {
  on_every_instruction_set([] {
    EXPECT_TRUE(run_as_interpreted({1, 66, 140, 33}, false, 1));
    EXPECT_TRUE(run_as_interpreted({2, 64, 65, 32}, true, 3));
    for (const Values values : {Values::some_near, Values::near, Values::tiny, Values::huge, Values::equal})
      EXPECT_TRUE(run_as_interpreted({1, 64, 70, 32, DType::f32, DType::f32, DType::f32, 0, false, values}, false, 3));
  });
}

TEST(Distances, OfFewRowsAreLeftToLoops) {
  EXPECT_FALSE(run_as_interpreted({.rows = 3}, false, 1));
  EXPECT_FALSE(run_as_interpreted({.depth = 2}, false, 1));
  EXPECT_FALSE(run_as_interpreted({.a = DType::f64}, false, 1));
}

}  // namespace
}  // namespace npusim::cpu::product
