// Sums of products in float64 and int64 and distances in float64 that run as products of matrices, against the scalar
// interpreter: sizes that end in parts of tiles and blocks, every order of memory, dtypes, batches, what is done with
// the sums, special values, convolutions, and kernels that are left to loops.
#include "backends/cpu/product/reductions/wide.h"

#include <limits>

#include "backends/cpu/check_step.h"
#include "backends/cpu/product/check.h"
#include "backends/cpu/product/pairing.h"

namespace npusim::cpu::product {
namespace {

using Coords = std::vector<Coord>;

struct Form {
  int64_t batch = 1, rows = 20, columns = 30, depth = 10;
  DType a = DType::f64, b = DType::f64, out = DType::f64;
  bool rows_apart = false, columns_apart = false;  // of a: [depth, rows]; of b: [depth, columns]
  bool shared = false;                             // b has no batch
  bool special = false;
  double scale = 2;
  Pairing pairing = Pairing::product;
};

Ex gathered(KernelBuilder& k, Pairing pairing, const Ex& a, const Ex& b) {
  if (pairing == Pairing::product) return k.reduce(Reduction::sum, a * b);
  const Ex apart = a - b;
  if (pairing == Pairing::squares) return k.reduce(Reduction::sum, apart * apart);
  return k.reduce(pairing == Pairing::farthest ? Reduction::max : Reduction::sum, abs(apart));
}

Kernel products(const Form& f) {
  KernelBuilder k({f.batch, f.rows, f.columns, f.depth}, 1);
  const Coord batch = k.dim(0), row = k.dim(1), column = k.dim(2), depth = k.dim(3);
  const int a = k.input({f.a, f.rows_apart ? Shape{f.batch, f.depth, f.rows} : Shape{f.batch, f.rows, f.depth}});
  const int b = k.input({f.b, f.columns_apart ? Shape{f.shared ? 1 : f.batch, f.depth, f.columns}
                                              : Shape{f.shared ? 1 : f.batch, f.columns, f.depth}});
  const int bias = k.input({f.out, {f.columns}}), out = k.output({f.out, {f.columns, f.batch, f.rows}});
  const Coord of_b = f.shared ? Coord(int64_t{0}) : batch;
  const Ex sum = gathered(k, f.pairing, k.load(a, f.rows_apart ? Coords{batch, depth, row} : Coords{batch, row, depth}),
                          k.load(b, f.columns_apart ? Coords{of_b, depth, column} : Coords{of_b, column, depth}));
  k.store(out, Coords{column, batch, row}, sum + k.load(bias, Coords{column}));
  return k.finish("products");
}

using Memory = std::vector<std::vector<std::byte>>;

Memory random_memory(const Kernel& kernel, double scale, unsigned seed) {
  std::mt19937 random(seed);
  Memory memory;
  for (const KernelArg& arg : kernel.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype) + 64);
    for (int64_t i = 0; i < arg.elements; ++i)
      store_double(memory.back().data(), arg.dtype, i, std::normal_distribution<double>(0, scale)(random));
  }
  return memory;
}
void make_special(const Kernel& kernel, Memory& memory) {
  store_double(memory[0].data(), kernel.args[0].dtype, 1, std::nan(""));
  store_double(memory[1].data(), kernel.args[1].dtype, 2, -std::numeric_limits<double>::infinity());
}

Memory interpreted(const Kernel& kernel, Memory memory) {
  std::vector<void*> args;
  for (auto& argument : memory) args.push_back(argument.data());
  evaluate(kernel, args, false);
  return memory;
}

// Whether the kernel is taken; then its result, the last argument, is the expected one, up to `unit`.
bool run_as_expected(const Kernel& kernel, Memory memory, const Memory& expected, int threads, double unit) {
  if (!run_step(kernel, memory, threads, reductions::make_wide_step)) return false;
  const KernelArg& result = kernel.args.back();
  if (is_integer(result.dtype)) {
    EXPECT_EQ(memory.back(), expected.back()) << to_text(kernel);
    return true;
  }
  for (int64_t i = 0; i < result.elements; ++i) {
    const double want = load_double(expected.back().data(), result.dtype, i),
                 got = load_double(memory.back().data(), result.dtype, i);
    const bool same = want == got || (std::isnan(want) && std::isnan(got)) || std::fabs(want - got) <= unit;
    EXPECT_TRUE(same) << i << ": " << got << ", expected " << want << "\n" << to_text(kernel);
    if (!same) break;
  }
  return true;
}

bool run_as_interpreted(const Form& f, int threads) {
  const Kernel kernel = products(f);
  Memory memory = random_memory(kernel, f.scale, static_cast<unsigned>(f.rows * 7 + f.columns));
  if (f.special) make_special(kernel, memory);
  const double unit =
      static_cast<double>(f.depth) * f.scale * f.scale * (f.pairing == Pairing::product ? 1e-15 : 4e-15);
  return run_as_expected(kernel, memory, interpreted(kernel, memory), threads, unit);
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

constexpr Pairing distances[] = {Pairing::squares, Pairing::distances, Pairing::farthest};

TEST(WideDistances, AreThoseOfTheInterpreter) {
  on_every_instruction_set([] {
    for (const Pairing pairing : distances)
      for (const bool rows_apart : {false, true})
        for (const bool columns_apart : {false, true})
          for (const bool special : {false, true}) {
            Form f{.rows_apart = rows_apart, .columns_apart = columns_apart, .special = special, .pairing = pairing};
            EXPECT_TRUE(run_as_interpreted(f, 1));
            f.batch = 3, f.rows = 2, f.columns = 27, f.depth = 4, f.shared = columns_apart;
            EXPECT_TRUE(run_as_interpreted(f, 2));
            f.batch = 1, f.rows = 9, f.columns = 50, f.depth = 259;  // several blocks of depths
            EXPECT_TRUE(run_as_interpreted(f, 3));
          }
  });
}

TEST(WideDistances, AllSizesOfATile) {
  for (const Pairing pairing : distances)
    for (int64_t rows = 2; rows < 10; ++rows)
      for (int64_t columns = 2; columns < 52; columns += 7)
        for (const int64_t depth : {2, 257})
          EXPECT_TRUE(run_as_interpreted({.rows = rows, .columns = columns, .depth = depth, .pairing = pairing}, 1));
}

// Norms of the differences of rows [rows, depth] from rows [columns, depth]; of the latter some elements may be 0, or
// some differences.
Kernel norms(Pairing pairing, int64_t rows, int64_t columns, int64_t depth, bool some = false, bool terms = false) {
  KernelBuilder k({rows, columns, depth}, 1);
  const int a = k.input({DType::f64, {rows, depth}}), b = k.input({DType::f64, {columns, depth}});
  const int out = k.output({DType::f64, {rows, columns}});
  const Ex x = k.load(a, Coords{k.dim(0), k.dim(2)}), y = k.load(b, Coords{k.dim(1), k.dim(2)});
  const auto within = [&](const Ex& from) { return select(k.in_bounds(k.dim(1) * 2 + k.dim(2) + -20, 50), from, 0); };
  const Ex sum = terms ? k.reduce(Reduction::sum, within(abs(x - y))) : gathered(k, pairing, x, some ? within(y) : y);
  k.store(out, Coords{k.dim(0), k.dim(1)}, pairing == Pairing::squares ? sqrt(sum) : sum);
  return k.finish("norms");
}

// Equal rows are 0 apart, others as far as they are however near.
TEST(WideDistances, OfRowsNearEachOther) {
  for (const Pairing pairing : distances) {
    const Kernel kernel = norms(pairing, 40, 60, 300);
    Memory memory = random_memory(kernel, 1e-9, 3);
    for (size_t operand = 0; operand < 2; ++operand)
      for (int64_t i = 0; i < kernel.args[operand].elements; ++i) {
        const double x = load_double(memory[operand].data(), DType::f64, i);
        store_double(memory[operand].data(), DType::f64, i, i < 2 * 300 ? 1e3 : 1e3 + x);
      }
    const Memory expected = interpreted(kernel, memory);
    on_every_instruction_set([&] { EXPECT_TRUE(run_as_expected(kernel, memory, expected, 2, 1e-20)); });
    EXPECT_EQ(load_double(expected.back().data(), DType::f64, 61), 0);
  }
}

TEST(WideDistances, OfWhatIsWithinACondition) {
  for (const Pairing pairing : distances) {
    const Kernel kernel = norms(pairing, 6, 30, 40, true);
    const Memory memory = random_memory(kernel, 2, 3), expected = interpreted(kernel, memory);
    on_every_instruction_set([&] { EXPECT_TRUE(run_as_expected(kernel, memory, expected, 2, 1e-12)); });
  }
  const Kernel kernel = norms(Pairing::distances, 6, 30, 40, false, true);
  Memory memory = random_memory(kernel, 2, 3);
  EXPECT_FALSE(run_step(kernel, memory, 1, reductions::make_wide_step));
}

TEST(WideDistances, AreTheSameForAnyNumberOfThreads) {
  for (const Pairing pairing : distances) {
    const Kernel kernel = norms(pairing, 150, 90, 700);
    const Memory start = random_memory(kernel, 1, 5);
    Memory one = start;
    EXPECT_TRUE(run_step(kernel, one, 1, reductions::make_wide_step));
    for (const int threads : {2, 3, 8}) {
      Memory some = start;
      EXPECT_TRUE(run_step(kernel, some, threads, reductions::make_wide_step));
      EXPECT_EQ(some.back(), one.back()) << threads;
    }
  }
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
  for (int64_t rows = 2; rows < 10; ++rows)
    for (int64_t columns = 2; columns < 52; columns += 3)
      for (const int64_t depth : {2, 4, 255, 256, 257})
        EXPECT_TRUE(run_as_interpreted({.rows = rows, .columns = columns, .depth = depth}, 1));
}

TEST(WideProducts, OfOneRowAreLeftToLoops) {
  EXPECT_FALSE(run_as_interpreted({.rows = 1}, 1));
  EXPECT_FALSE(run_as_interpreted({.columns = 1}, 1));
  EXPECT_FALSE(run_as_interpreted({.rows = 1, .pairing = Pairing::squares}, 1));
  EXPECT_FALSE(run_as_interpreted({.depth = 1, .pairing = Pairing::farthest}, 1));
  EXPECT_FALSE(run_as_interpreted({.a = DType::f32, .b = DType::f32, .out = DType::f32}, 1));
}

// Of images of one size in both directions, and of what is between them.
struct ConvForm {
  int64_t batch = 1, groups = 1, in = 3, out = 5, height = 9, width = 11, taps = 3, stride = 1, dilation = 1, pad = 1;
  DType dtype = DType::f64;
  bool channels_last = false, relu = false, special = false;
  bool products = false;  // are selected, not pixels: of a transposed convolution
};

int64_t extent_of(const ConvForm& f, int64_t size) {
  return (size + 2 * f.pad - f.dilation * (f.taps - 1) - 1) / f.stride + 1;
}

Kernel convolution(const ConvForm& f) {
  const int64_t rows = extent_of(f, f.height), columns = extent_of(f, f.width);
  KernelBuilder k({f.batch, f.groups, f.out, rows, columns, f.in, f.taps, f.taps}, 3);
  const Affine in = k.dim(1) * f.in + k.dim(5), out = k.dim(1) * f.out + k.dim(2);
  const Affine y = k.dim(3) * f.stride + k.dim(6) * f.dilation + -f.pad,
               x = k.dim(4) * f.stride + k.dim(7) * f.dilation + -f.pad;
  const auto order = [&](Coord n, Coord c, Coord i, Coord j) {
    return f.channels_last ? Coords{n, i, j, c} : Coords{n, c, i, j};
  };
  const auto shape = [&](int64_t channels, int64_t h, int64_t w) {
    return f.channels_last ? Shape{f.batch, h, w, channels} : Shape{f.batch, channels, h, w};
  };
  const int image = k.input({f.dtype, shape(f.groups * f.in, f.height, f.width)});
  const int weight = k.input({f.dtype, {f.groups * f.out, f.in, f.taps, f.taps}});
  const int bias = k.input({f.dtype, {f.groups * f.out}});
  const int result = k.output({f.dtype, shape(f.groups * f.out, rows, columns)});
  const Ex inside = k.integer(1, Scalar::boolean) && k.in_bounds(y, f.height) && k.in_bounds(x, f.width);
  const Ex pixel = k.load(image, order(Coord(k.dim(0)), Coord(in), Coord(y), Coord(x)));
  const Ex tap = k.load(weight, Coords{Coord(out), Coord(k.dim(5)), Coord(k.dim(6)), Coord(k.dim(7))});
  Ex sum = k.reduce(Reduction::sum, f.products ? select(inside, pixel * tap, 0) : select(inside, pixel, 0) * tap);
  if (f.relu) sum = max(sum + k.load(bias, Coords{Coord(out)}), 0);
  k.store(result, order(Coord(k.dim(0)), Coord(out), Coord(k.dim(3)), Coord(k.dim(4))), sum);
  return k.finish("convolution");
}

void expect_as_interpreted(const ConvForm& f, int threads) {
  const Kernel kernel = convolution(f);
  Memory memory = random_memory(kernel, 2, static_cast<unsigned>(f.height * 7 + f.out));
  if (f.special) make_special(kernel, memory);
  const Memory expected = interpreted(kernel, memory);
  const double unit = static_cast<double>(f.in * f.taps * f.taps) * 4e-15;
  on_every_instruction_set([&] { EXPECT_TRUE(run_as_expected(kernel, memory, expected, threads, unit)); });
}

TEST(WideProducts, OfConvolutions) {
  for (const bool channels_last : {false, true})
    for (const int64_t stride : {1, 2})
      for (const int64_t dilation : {1, 2})
        for (const int64_t pad : {0, 1, 3}) {
          ConvForm f{.stride = stride, .dilation = dilation, .pad = pad, .channels_last = channels_last};
          expect_as_interpreted(f, 1);
          f.in = 2, f.special = f.relu = true, f.batch = 2, f.groups = 3, f.out = 4;
          expect_as_interpreted(f, 2);
          f.products = true;
          expect_as_interpreted(f, 2);
          f.special = false;
          expect_as_interpreted(f, 1);
        }
  expect_as_interpreted({.batch = 3, .in = 2, .out = 9, .height = 13, .width = 14}, 3);     // a batch of images
  expect_as_interpreted({.batch = 2, .in = 1, .height = 40, .width = 42, .stride = 3}, 2);  // several panels
  expect_as_interpreted({.in = 60, .out = 9, .height = 6, .width = 5}, 2);  // several slices of the depth
  expect_as_interpreted({.in = 4, .out = 6, .taps = 1, .pad = 0}, 2);
  expect_as_interpreted({.in = 4, .out = 6, .taps = 1, .pad = 2, .relu = true}, 1);
  expect_as_interpreted({.height = 5, .width = 4, .taps = 7, .pad = 3}, 1);
  expect_as_interpreted({.dtype = DType::i64, .relu = true}, 2);
  expect_as_interpreted({.stride = 2, .dtype = DType::i32}, 2);
}

// An image that a condition cuts off within its memory.
// Of doubles along long lines loops are as good.
TEST(WideProducts, OfConvolutionsOfFewChannels) {
  for (const DType dtype : {DType::f64, DType::i64, DType::i32})
    for (const int64_t in : {1, 2})
      for (const int64_t out : {2, 3})
        for (const int64_t stride : {1, 2}) {
          ConvForm f{.in = in, .out = out, .height = 5, .width = 14, .stride = stride, .dtype = dtype};
          f.groups = 5, f.pad = 2, f.taps = 5;
          expect_as_interpreted(f, 2);
          f.special = dtype == DType::f64, f.products = true, f.channels_last = stride == 2;
          expect_as_interpreted(f, 1);
        }
  expect_as_interpreted({.in = 2, .out = 2, .height = 4, .width = 40, .dtype = DType::i64}, 1);
}

TEST(WideProducts, OfWhatIsWithinACondition) {
  KernelBuilder k({6, 30, 40}, 1);
  const int a = k.input({DType::f64, {6, 40}}), b = k.input({DType::f64, {30, 40}});
  const int c = k.output({DType::f64, {6, 30}});
  const Ex some = select(k.in_bounds(k.dim(1) * 2 + k.dim(2) + -20, 50), k.load(b, Coords{k.dim(1), k.dim(2)}), 0);
  k.store(c, Coords{k.dim(0), k.dim(1)}, k.reduce(Reduction::sum, k.load(a, Coords{k.dim(0), k.dim(2)}) * some));
  const Kernel kernel = k.finish("within");
  const Memory memory = random_memory(kernel, 2, 3), expected = interpreted(kernel, memory);
  on_every_instruction_set([&] { EXPECT_TRUE(run_as_expected(kernel, memory, expected, 2, 1e-12)); });
}

TEST(WideProducts, AreTheSameForAnyNumberOfThreads) {
  for (const ConvForm& f : {ConvForm{.batch = 2, .out = 17, .height = 40, .width = 33, .relu = true},
                            ConvForm{.in = 40, .out = 90, .height = 6, .width = 7}}) {
    const Kernel kernel = convolution(f);
    const Memory start = random_memory(kernel, 1, 5);
    Memory one = start;
    EXPECT_TRUE(run_step(kernel, one, 1, reductions::make_wide_step));
    for (const int threads : {2, 3, 5, 8}) {
      Memory some = start;
      EXPECT_TRUE(run_step(kernel, some, threads, reductions::make_wide_step));
      EXPECT_EQ(some.back(), one.back()) << threads;
    }
  }
}

// Sums whose result has the memory of what their epilogue reads are not made there.
TEST(WideProducts, OfWhichTheResultIsInPlaceOfAnOperand) {
  KernelBuilder k({12, 13, 20}, 1);
  const int a = k.input({DType::f64, {12, 20}}), b = k.input({DType::f64, {13, 20}});
  const int c = k.input({DType::f64, {12, 13}}), out = k.output({DType::f64, {12, 13}});
  const Ex sum =
      k.reduce(Reduction::sum, k.load(a, Coords{k.dim(0), k.dim(2)}) * k.load(b, Coords{k.dim(1), k.dim(2)}));
  k.store(out, Coords{k.dim(0), k.dim(1)}, sum + k.load(c, Coords{k.dim(0), k.dim(1)}));
  const Kernel kernel = k.finish("added");
  Memory memory = random_memory(kernel, 1, 7), apart = memory;
  ASSERT_TRUE(run_step(kernel, apart, 1, reductions::make_wide_step));
  std::vector<Binding> bindings;
  for (const size_t i : {0, 1, 2, 2}) bindings.push_back({memory[i].data(), false});
  const std::unique_ptr<BoundStep> step = reductions::make_wide_step(kernel, bindings, Context{});
  ASSERT_TRUE(step);
  std::vector<std::byte> scratch(step->scratch_bytes() + 64);
  step->set_scratch(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
  step->run();
  EXPECT_EQ(memory[2], apart[3]);
}

}  // namespace
}  // namespace npusim::cpu::product
