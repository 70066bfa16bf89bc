// Stores that combine at computed positions, as lines in a block's memory: executed (on the CPU where there is no GPU)
// and compared with the reference.
#include "backends/cuda/codegen/rows/combine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/harness/check.h"
#include "kernel/builder.h"

namespace npusim {
namespace {

using K = KernelBuilder;
constexpr DType f16 = DType::f16, f32 = DType::f32, f64 = DType::f64, i64 = DType::i64, i32 = DType::i32;

// self[…, index[…], …] combined with x along dimension `dim` of two, an index for each element or for each of its line.
struct Scatter {
  int64_t rows = 1, columns = 1, results = 1;
  int dim = 0;
  bool shared_index = false;
  DType dtype = f32;
  Reduction reduction = Reduction::sum;
};

Kernel scatter(const Scatter& s) {
  K k({s.rows, s.columns});
  const Shape self = s.dim == 0 ? Shape{s.results, s.columns} : Shape{s.rows, s.results};
  const int before = k.input({s.dtype, self}),
            index = k.input({i64, s.shared_index ? Shape{s.dim == 0 ? s.rows : s.columns} : Shape{s.rows, s.columns}}),
            x = k.input({s.dtype, {s.rows, s.columns}}), out = k.output({s.dtype, self}, before);
  const std::vector<Coord> each{k.dim(0), k.dim(1)}, line{k.dim(s.dim)};
  std::vector<Coord> to = each;
  to[static_cast<size_t>(s.dim)] = Coord(k.load(index, s.shared_index ? line : each));
  k.store(out, to, k.load_broadcast(x), s.reduction);
  return k.finish("scatter");
}

// Indices anywhere, or all the same, and a NaN, infinities and zeros of both signs among the values.
void set_indices(std::vector<HostTensor>& memory, size_t index, int64_t results, int64_t first, unsigned seed) {
  std::mt19937_64 random(seed);
  HostTensor& t = memory[index];
  const bool one = seed % 4 == 3;
  for (int64_t i = 0; i < t.type.shape[0]; ++i)
    store_int(t.data.data(), t.type.dtype, i,
              first + (one ? results - 1 : static_cast<int64_t>(random() % static_cast<uint64_t>(results))));
}

Case scattered(const std::string& name, const Scatter& s, unsigned seed) {
  Kernel kernel = scatter(s);
  kernel.name = name;
  Case c{name, kernel, cuda::codegen::choose::make_kernel(kernel, any, std::vector<bool>(kernel.args.size())), {}, {}};
  EXPECT_TRUE(c.made.how.starts_with("combined lines")) << name << ": " << c.made.how;
  c.given = [s, seed](std::vector<HostTensor>& memory) {
    set_indices(memory, 1, s.results, 0, seed);
    const double special[] = {NAN, INFINITY, -0.0, 0.0};
    if (is_float(s.dtype) && s.reduction != Reduction::sum)
      for (int64_t i = 0; i < 4; ++i) store_double(memory[2].data.data(), s.dtype, i * 7, special[i]);
    // Products stay near one; results of 16 bits are numbers that the reference, which rounds each, has too.
    const bool narrow = s.dtype == f16 || s.dtype == DType::bf16, product = s.reduction == Reduction::product;
    for (const size_t of : {size_t{0}, size_t{2}})
      for (int64_t i = product ? 30 : 0; i < memory[of].type.shape[0] && (narrow || product) && is_float(s.dtype);
           ++i) {
        const double x = load_double(memory[of].data.data(), s.dtype, i);
        const double exact = product ? (x < 0 ? -0.5 : 2) : std::round(x);
        store_double(memory[of].data.data(), s.dtype, i, narrow ? exact : 1 + 0.125 * x);
      }
    memory[3].data = memory[0].data;
  };
  return c;
}

TEST(CudaCombine, LinesOfEveryKind) {
  std::vector<Case> cases;
  unsigned seed = 0;
  const auto add = [&](const Scatter& s) {
    cases.push_back(scattered(fmt::format("scatter_{}", seed), s, seed)), ++seed;
  };
  for (const int dim : {0, 1})
    for (const bool shared : {false, true}) {
      const auto sized = [&](int64_t lines, int64_t length, int64_t results) {
        return Scatter{dim == 0 ? length : lines, dim == 0 ? lines : length, results, dim, shared};
      };
      add(sized(256, 64, 16));
      add(sized(300, 100, 33));    // blocks and steps that are not whole
      add(sized(257, 300, 1));     // one position
      add(sized(1600, 70, 70));    // blocks of sixteen lines
      add(sized(256, 260, 2050));  // long lines
    }
  check(cases);
}

TEST(CudaCombine, EveryTypeAndReduction) {
  std::vector<Case> cases;
  unsigned seed = 0;
  for (const DType dtype : {DType::boolean, DType::u8, DType::i8, DType::i16, i32, i64, f16, DType::bf16, f32, f64})
    for (const Reduction r : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max}) {
      if (dtype == f16 && r == Reduction::product) continue;  // leaves the numbers that it has
      cases.push_back(scattered(fmt::format("{}_{}", dtype_name(dtype), reduction_name(r)),
                                {70, 256, 20, 0, false, dtype, r}, seed));
      ++seed;
    }
  check(cases);
}

// Two index terms; a constant that is added, a stride that is negative, and pieces that are not equally long.
TEST(CudaCombine, PlacesOfSeveralIndices) {
  K k({400, 90});
  const int before = k.input({f32, {5, 400, 7}}), a = k.input({i64, {90}}), b = k.input({i32, {400, 90}}),
            x = k.input({f32, {90}}), out = k.output({f32, {5, 400, 7}}, before);
  const Coord first[] = {k.dim(1)}, both[] = {k.dim(0), k.dim(1)};
  const Coord to[] = {Coord(k.load(a, first)), k.dim(0), Coord(k.load(b, both) + 1)};
  k.store(out, to, k.load(x, first) * 2.0, Reduction::sum);
  Kernel kernel = k.finish("put");
  Case c{"put", kernel, cuda::codegen::choose::make_kernel(kernel, any, std::vector<bool>(kernel.args.size())), {}, {}};
  EXPECT_TRUE(c.made.how.starts_with("combined lines")) << c.made.how;
  c.given = [](std::vector<HostTensor>& memory) { set_indices(memory, 1, 5, 0, 1), set_indices(memory, 2, 7, -1, 2); };
  check({c});
}

// What is out of range traps, is left out, and all else is combined.
TEST(CudaCombine, OutOfRangeTraps) {
  Case c = scattered("trapped", {64, 300, 9}, 1);
  TextRunner machine(c.made.functions);
  ASSERT_EQ(machine.error(), "");
  for (const int64_t wrong : {int64_t{-1}, int64_t{9}, int64_t{1} << 40}) {
    std::vector<HostTensor> memory = random_memory(c.kernel, 1);
    c.given(memory);
    store_int(memory[1].data.data(), i64, 5000, wrong);
    EXPECT_EQ(machine.run(c.kernel, c.made, memory, mslx::Order::random, std::vector<bool>(4)),
              "an index is out of range for a dimension of 9 of argument %3");
  }
}

// Few results are lines of pieces.
TEST(CudaCombine, FewLinesAreThoseOfPieces) {
  const auto counted = [](int64_t n, int64_t results, int64_t own, DType type, Reduction r) {
    K k({n, own});
    const int before = k.input({type, {results, own}}), x = k.input({type, {n, own}}), to = k.input({i64, {n, own}}),
              out = k.output({type, {results, own}}, before);
    const Coord at[] = {Coord(bit_and(k.load_broadcast(to), k.integer(results - 1))), k.dim(1)};
    k.store(out, at, k.load_broadcast(x), r);
    return k.finish("counted");
  };
  check_steps({{"counted", counted(150001, 64, 1, i64, Reduction::sum), 3, {"rows", "combined lines"}},
               {"summed", counted(40001, 8, 5, f64, Reduction::sum), 3, {"rows", "combined lines"}},
               {"largest", counted(140000, 4, 1, f16, Reduction::max), 3, {"rows", "combined lines"}},
               {"rather_few", counted(5000, 64, 1, i64, Reduction::sum), 3, {"rows", "rows"}}});
}

TEST(CudaCombine, SaysWhyItDeclines) {
  const auto why = [](const Scatter& s) { return cuda::codegen::rows::combine_decline(scatter(s)); };
  EXPECT_EQ(why({64, 300, 9}), "");
  EXPECT_EQ(why({64, 100, 9}), "100 lines");
  EXPECT_EQ(why({8, 300, 9}), "8 elements of a line");
  EXPECT_EQ(why({100, 300, 1000}), "100 elements of a line of 1000 positions");
  EXPECT_EQ(why({30000, 300, 25000}), "a line of 100004 bytes");
  K add({512, 256});
  const int self = add.input({f32, {256}}), x = add.input({f32, {512, 256}}), sum = add.output({f32, {256}}, self);
  const Coord to[] = {add.dim(1)};
  add.store(sum, to, add.load_broadcast(x), Reduction::sum);
  EXPECT_EQ(cuda::codegen::rows::combine_decline(add.finish("add_up")), "no computed position");
}

}  // namespace
}  // namespace npusim
