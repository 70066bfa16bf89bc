// Sums of products in float64 and int64 that run as products of matrices, against the scalar interpreter: sizes that
// end in parts of tiles and blocks, every order of memory, dtypes, batches, what is done with the sums, special values,
// and kernels that are left to loops.
#include "backends/cpu/product/wide.h"

#include <limits>

#include "backends/cpu/check_step.h"
#include "backends/cpu/product/check.h"

namespace npusim::cpu {
namespace {

using Coords = std::vector<Coord>;

struct Form {
  int64_t batch = 1, rows = 20, columns = 30, depth = 10;
  DType a = DType::f64, b = DType::f64, out = DType::f64;
  bool rows_apart = false, columns_apart = false;  // of a: [depth, rows]; of b: [depth, columns]
  bool shared = false;                             // b has no batch
  bool special = false;
  double scale = 2;
};

Kernel products(const Form& f) {
  KernelBuilder k({f.batch, f.rows, f.columns, f.depth}, 1);
  const Coord batch = k.dim(0), row = k.dim(1), column = k.dim(2), depth = k.dim(3);
  const int a = k.input({f.a, f.rows_apart ? Shape{f.batch, f.depth, f.rows} : Shape{f.batch, f.rows, f.depth}});
  const int b = k.input({f.b, f.columns_apart ? Shape{f.shared ? 1 : f.batch, f.depth, f.columns}
                                              : Shape{f.shared ? 1 : f.batch, f.columns, f.depth}});
  const int bias = k.input({f.out, {f.columns}}), out = k.output({f.out, {f.columns, f.batch, f.rows}});
  const Coord of_b = f.shared ? Coord(int64_t{0}) : batch;
  const Ex sum = k.reduce(Reduction::sum,
                          k.load(a, f.rows_apart ? Coords{batch, depth, row} : Coords{batch, row, depth}) *
                              k.load(b, f.columns_apart ? Coords{of_b, depth, column} : Coords{of_b, column, depth}));
  k.store(out, Coords{column, batch, row}, sum + k.load(bias, Coords{column}));
  return k.finish("products");
}

bool run_as_interpreted(const Form& f, int threads) {
  const Kernel kernel = products(f);
  std::mt19937 random(static_cast<unsigned>(f.rows * 7 + f.columns));
  std::vector<std::vector<std::byte>> memory;
  for (const KernelArg& arg : kernel.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype) + 64);
    for (int64_t i = 0; i < arg.elements; ++i)
      store_double(memory.back().data(), arg.dtype, i, std::normal_distribution<double>(0, f.scale)(random));
  }
  if (f.special) {
    store_double(memory[0].data(), f.a, 1, std::nan(""));
    store_double(memory[1].data(), f.b, 2, -std::numeric_limits<double>::infinity());
  }
  std::vector<std::vector<std::byte>> expected = memory;
  std::vector<void*> args;
  for (auto& argument : expected) args.push_back(argument.data());
  evaluate(kernel, args, false);
  if (!run_step(kernel, memory, threads, make_wide_step)) return false;
  if (is_integer(f.out)) {
    EXPECT_EQ(memory[3], expected[3]) << to_text(kernel);
    return true;
  }
  for (int64_t i = 0; i < kernel.args[3].elements; ++i) {
    const double want = load_double(expected[3].data(), f.out, i), got = load_double(memory[3].data(), f.out, i);
    const double unit = static_cast<double>(f.depth) * f.scale * f.scale * 1e-15;
    const bool same = want == got || (std::isnan(want) && std::isnan(got)) || std::fabs(want - got) <= unit;
    EXPECT_TRUE(same) << i << ": " << got << ", expected " << want << "\n" << to_text(kernel);
    if (!same) break;
  }
  return true;
}

TEST(WideProducts, AreThoseOfTheInterpreter) {
  on_every_instruction_set([] {
    for (const bool rows_apart : {false, true})
      for (const bool columns_apart : {false, true})
        for (const bool special : {false, true}) {
          Form f{.rows_apart = rows_apart, .columns_apart = columns_apart, .special = special};
          EXPECT_TRUE(run_as_interpreted(f, 1));
          f.batch = 3, f.rows = 5, f.columns = 7, f.depth = 4, f.shared = columns_apart;
          EXPECT_TRUE(run_as_interpreted(f, 2));
          f.rows = 21, f.columns = 200, f.depth = 259;  // several blocks of columns and of depths
          EXPECT_TRUE(run_as_interpreted(f, 3));
          f.rows = 515, f.columns = 25, f.depth = 6;  // several blocks of rows
          EXPECT_TRUE(run_as_interpreted(f, 2));
        }
  });
}

TEST(WideProducts, OfIntegersWrapAround) {
  on_every_instruction_set([] {
    for (const DType dtype : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
      Form f{.a = dtype, .b = dtype, .out = DType::i64, .columns_apart = true, .scale = 40};
      EXPECT_TRUE(run_as_interpreted(f, 1)) << dtype_name(dtype);
      f.batch = 2, f.rows = 13, f.columns = 50, f.depth = 300, f.b = DType::i64, f.scale = 1e12;
      EXPECT_EQ(dtype != DType::i64 || run_as_interpreted(f, 3), true);
    }
  });
}

TEST(WideProducts, AllSizesOfATile) {
  for (int64_t rows = 4; rows < 10; ++rows)
    for (int64_t columns = 4; columns < 52; columns += 3)
      for (const int64_t depth : {4, 255, 256, 257})
        EXPECT_TRUE(run_as_interpreted({.rows = rows, .columns = columns, .depth = depth}, 1));
}

TEST(WideProducts, OfFewRowsAreLeftToLoops) {
  EXPECT_FALSE(run_as_interpreted({.rows = 3}, 1));
  EXPECT_FALSE(run_as_interpreted({.columns = 2}, 1));
  EXPECT_FALSE(run_as_interpreted({.a = DType::f32, .b = DType::f32, .out = DType::f32}, 1));
}

}  // namespace
}  // namespace npusim::cpu
