// Reductions over pairs of rows in tiles: executed (on the CPU where there is no GPU) and compared with the reference.
#include "backends/cuda/codegen/rows/pairs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/harness/check.h"
#include "kernel/builder.h"

namespace npusim {
namespace {

using K = KernelBuilder;
constexpr DType f16 = DType::f16, f32 = DType::f32, f64 = DType::f64, i32 = DType::i32;

struct Rows {
  int64_t batch = 1, first = 1, second = 1, length = 1;
  DType dtype = f32, to = f32;
  bool across = false, shared = false;  // elements of a row do not lie side by side; all batches have one operand
};

// What a pair's distance is, and a row of numbers that are added to it.
enum class Form { euclid, largest, smallest_product, whole };

Kernel pairs(const Rows& r, Form form) {
  K k({r.batch, r.first, r.second, r.length}, 1);
  const int a = k.input({r.dtype, r.across ? Shape{r.batch, r.length, r.first} : Shape{r.batch, r.first, r.length}}),
            b = k.input({r.dtype, {r.shared ? 1 : r.batch, r.second, r.length}}), bias = k.input({f32, {r.second}}),
            out = k.output({r.to, {r.batch, r.first, r.second}});
  const Coord of_a[] = {k.dim(0), k.dim(r.across ? 3 : 1), k.dim(r.across ? 1 : 3)},
              of_b[] = {r.shared ? Coord(int64_t{0}) : Coord(k.dim(0)), k.dim(2), k.dim(3)}, column[] = {k.dim(2)},
              to[] = {k.dim(0), k.dim(1), k.dim(2)};
  const Ex x = k.load(a, of_a), y = k.load(b, of_b), apart = x - y;
  Ex result = apart;
  if (form == Form::euclid) result = sqrt(k.reduce(Reduction::sum, apart * apart)) + k.load(bias, column);
  if (form == Form::largest) result = k.reduce(Reduction::max, abs(apart));
  if (form == Form::smallest_product) result = k.reduce(Reduction::min, x * y) * 2.0;
  if (form == Form::whole) result = k.reduce(Reduction::sum, abs(apart));
  k.store(out, to, k.cast(result, scalar_of(r.to)));
  return k.finish("pairs");
}

Case pairs_case(const std::string& name, const Rows& r, Form form, const std::string& how) {
  Kernel kernel = pairs(r, form);
  kernel.name = name;
  Case c{name, kernel, cuda::codegen::choose::make_kernel(kernel, any, std::vector<bool>(kernel.args.size())), {}, {}};
  EXPECT_EQ(c.made.how, how) << name;
  EXPECT_TRUE(cuda::codegen::choose::find_parts(kernel, any).steps.empty()) << name;
  return c;
}

TEST(CudaPairs, TilesOfEverySize) {
  const std::string small = "pairs, 32 x 32 to a block", large = "pairs, 64 x 64 to a block";
  std::vector<Case> cases;
  cases.push_back(pairs_case("whole_tiles", {1, 128, 128, 64}, Form::euclid, small));
  cases.push_back(pairs_case("odd_tiles", {1, 129, 135, 33}, Form::euclid, small));
  cases.push_back(pairs_case("long_rows", {1, 130, 130, 100}, Form::largest, small));
  cases.push_back(pairs_case("three", {1, 1030, 17, 3}, Form::euclid, small));
  cases.push_back(pairs_case("one", {1, 130, 190, 1}, Form::whole, small));
  cases.push_back(pairs_case("many", {1, 641, 650, 5}, Form::euclid, large));
  cases.push_back(pairs_case("batches", {3, 70, 80, 40}, Form::smallest_product, small));
  cases.push_back(pairs_case("shared", {4, 66, 64, 40, f32, f32, false, true}, Form::euclid, small));
  cases.push_back(pairs_case("across", {2, 100, 90, 36, f32, f32, true}, Form::euclid, small));
  check(cases);
}

TEST(CudaPairs, EveryType) {
  const std::string how = "pairs, 32 x 32 to a block";
  std::vector<Case> cases;
  for (const DType dtype : {f16, DType::bf16, f32, f64, i32, DType::i64, DType::u8})
    for (const Form form : {Form::largest, Form::smallest_product, Form::whole}) {
      const DType to = is_float(dtype) ? dtype : DType::i64;
      if (!is_float(dtype) && form == Form::smallest_product) continue;  // is multiplied by a float
      cases.push_back(pairs_case(fmt::format("{}_{}", dtype_name(dtype), static_cast<int>(form)),
                                 {1, 129, 128, 20, dtype, to}, form, how));
    }
  check(cases);
}

TEST(CudaPairs, SaysWhyItDeclines) {
  EXPECT_EQ(cuda::codegen::rows::pairs_decline(pairs({1, 128, 128, 9}, Form::euclid)), "");
  EXPECT_EQ(cuda::codegen::rows::pairs_decline(pairs({1, 100, 128, 9}, Form::euclid)), "100 x 128 pairs");
  EXPECT_EQ(cuda::codegen::rows::pairs_decline(pairs({1, 8, 12800, 9}, Form::euclid)), "8 x 12800 pairs");
  K k({200, 200, 8}, 1);
  const int a = k.input({f32, {200, 8}}), b = k.input({f32, {200, 8}}), out = k.output({f32, {200, 200}});
  const Coord row[] = {k.dim(0), k.dim(2)}, to[] = {k.dim(0), k.dim(1)};
  k.store(out, to, k.reduce(Reduction::sum, k.load(a, row) - k.load(b, row)));
  EXPECT_EQ(cuda::codegen::rows::pairs_decline(k.finish("one_row")), "operands that share their rows");
}

}  // namespace
}  // namespace npusim
