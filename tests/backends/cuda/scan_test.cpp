// Scans of rows by warps and blocks: executed (on the CPU where there is no GPU) and compared with the reference.
#include "backends/cuda/codegen/rows/scan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/harness/check.h"
#include "kernel/builder.h"

namespace npusim {
namespace {

using K = KernelBuilder;
constexpr DType f16 = DType::f16, f32 = DType::f32, f64 = DType::f64, i64 = DType::i64, i32 = DType::i32;

enum class Form { one, index_of_largest, shifted, several, logs, reduced };

// Rows of `n` elements of memory that has `room` more behind each.
Kernel scanned(Form form, DType dtype, Reduction reduction, int64_t rows, int64_t n, int64_t room = 0) {
  K k({rows, n}, 1);
  const Shape shape{rows, n + room};
  const Coord at[] = {k.dim(0), k.dim(1)};
  const int a = k.input({dtype, shape});
  const Ex x = k.load(a, at);
  if (form == Form::one) {
    k.store(k.output({dtype, {rows, n}}), at, k.scan(reduction, x));
  } else if (form == Form::index_of_largest) {
    const Ex top = k.scan(Reduction::max, x);
    k.store(k.output({dtype, {rows, n}}), at, top);
    k.store(k.output({i64, {rows, n}}), at, k.scan(Reduction::max, select(x == top, k.index(1), k.integer(-1))));
  } else if (form == Form::shifted) {  // what is before the element, and a number of the row
    const int of_row = k.input({dtype, {rows}});
    const Affine before = k.dim(1) + -1;
    const Coord left[] = {k.dim(0), before}, row[] = {k.dim(0)};
    const Ex value = select(k.in_bounds(before, n + room), k.load(a, left), k.number(0, x.type()));
    k.store(k.output({dtype, {rows, n}}), at, k.scan(reduction, value) + k.load(of_row, row) * x);
  } else if (form == Form::several) {  // two that wait for nothing, and one for both
    const Ex sum = k.scan(Reduction::sum, x), least = k.scan(Reduction::min, x);
    k.store(k.output({f32, {rows, n}}), at, k.scan(Reduction::max, k.cast(sum + least, Scalar::f32)));
    k.store(k.output({dtype, {rows, n}}), at, sum);
  } else if (form == Form::reduced) {  // a sum, a scan with it, one that waits for both, and what that comes to
    const Ex sum = k.reduce(Reduction::sum, x), most = k.scan(Reduction::max, x - k.number(0.5)),
             all = k.scan(Reduction::sum, select(most < sum, x, k.index(1) * 0.125)),
             least = k.reduce(Reduction::min, all);
    k.store(k.output({dtype, {rows, n}}), at, all - least);
    const Coord row[] = {k.dim(0)};
    k.store(k.output({f32, {rows}}), row, k.cast(sum, Scalar::f32));
  } else {
    Kernel kernel = scanned(Form::one, dtype, Reduction::sum, rows, n, room);
    for (Expr& e : kernel.exprs)
      if (e.op == ExprOp::scan) e.integer = 1;
    return kernel;
  }
  return k.finish("scanned");
}

Case scan_case(const std::string& name, Kernel kernel) {
  kernel.name = name;
  Case c{name, kernel, cuda::codegen::choose::make_kernel(kernel, any, std::vector<bool>(kernel.args.size())), {}, {}};
  EXPECT_TRUE(c.made.how.starts_with("scanned rows")) << name << ": " << c.made.how;
  EXPECT_TRUE(cuda::codegen::choose::find_parts(kernel, any).steps.empty()) << name;
  return c;
}

// NaN, infinities and zeros of both signs in a few elements.
void put_special(std::vector<HostTensor>& memory) {
  HostTensor& t = memory[0];
  const double special[] = {INFINITY, -0.0, NAN, 0.0, -INFINITY};
  const int64_t n = t.type.shape[0];
  if (!is_float(t.type.dtype)) return;
  for (int64_t i = 0; i < 5 && i * 17 + n / 3 < n; ++i)
    store_double(t.data.data(), t.type.dtype, i * 17 + n / 3, special[i]);
}

// Every number of warps and elements, rows that no share divides, blocks of several rows, rows of several rounds.
TEST(CudaScan, EveryShare) {
  std::vector<Case> cases;
  for (const int64_t n : {32, 33, 63, 64, 100, 200, 255, 256, 257, 300, 1000, 2048, 8192, 9001, 16384}) {
    const int64_t rows = n < 300 ? 6 : 2;
    for (const Form form : {Form::one, Form::index_of_largest}) {
      Case c = scan_case(fmt::format("scan_{}_{}", n, static_cast<int>(form)),
                         scanned(form, f32, Reduction::max, rows, n, n % 3));
      if (n % 2 == 0) c.given = put_special;
      cases.push_back(std::move(c));
    }
  }
  for (const int64_t n : {33, 70, 256, 500, 2048, 8000})
    cases.push_back(scan_case(fmt::format("reduced_{}", n), scanned(Form::reduced, f32, {}, 5, n)));
  cases.push_back(scan_case("scan_of_many", scanned(Form::several, f32, Reduction::sum, 540, 2500)));
  check(cases);
}

TEST(CudaScan, EveryTypeAndReduction) {
  std::vector<Case> cases;
  for (const DType dtype : {i32, i64, DType::u8, f16, DType::bf16, f32, f64})
    for (const Reduction r : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max}) {
      Case c =
          scan_case(fmt::format("{}_{}", dtype_name(dtype), reduction_name(r)), scanned(Form::one, dtype, r, 3, 520));
      if (r == Reduction::min || r == Reduction::max) c.given = put_special;
      cases.push_back(std::move(c));
    }
  for (const DType dtype : {f32, f64}) {
    cases.push_back(scan_case(fmt::format("logs_{}", dtype_name(dtype)), scanned(Form::logs, dtype, {}, 3, 700)));
    cases.back().given = put_special;
    cases.push_back(
        scan_case(fmt::format("shifted_{}", dtype_name(dtype)), scanned(Form::shifted, dtype, Reduction::sum, 4, 333)));
  }
  cases.push_back(scan_case("several", scanned(Form::several, f32, Reduction::sum, 5, 9000)));
  check(cases);
}

// Few long rows are pieces, each scanned so, and so are what the pieces come to.
TEST(CudaScan, LongRowsAreInPieces) {
  check_steps({{"sum", scanned(Form::one, i64, Reduction::sum, 1, 70001), 0},
               {"largest", scanned(Form::index_of_largest, f32, Reduction::max, 1, 70001), 0},
               {"largest_of_three", scanned(Form::index_of_largest, f32, Reduction::max, 3, 40000), 0}});
  const Unfused parts = cuda::codegen::choose::find_parts(scanned(Form::one, f32, Reduction::sum, 1, 1 << 21), any);
  ASSERT_EQ(parts.steps.size(), 3U);
  const Kernel& points = parts.steps[2].kernel;
  EXPECT_EQ(cuda::codegen::rows::scan_decline(points, any), "");
  EXPECT_EQ(cuda::codegen::rows::scan_decline(parts.steps[1].kernel, any), "");
}

TEST(CudaScan, SaysWhyItDeclines) {
  const auto why = [](int64_t rows, int64_t n) {
    return cuda::codegen::rows::scan_decline(scanned(Form::one, f32, Reduction::sum, rows, n), any);
  };
  EXPECT_EQ(why(4, 32), "");
  EXPECT_EQ(why(4, 31), "rows of 31 elements");
  EXPECT_EQ(why(4, 20000), "4 long rows");
  EXPECT_EQ(why(96, 20000), "");
  EXPECT_EQ(cuda::codegen::rows::scan_decline(scanned(Form::reduced, f32, {}, 200, 9000), any),
            "a long row that is reduced, too");
  Kernel across = scanned(Form::one, f32, Reduction::sum, 64, 64);
  across.accesses[0].strides = {1, 64};
  EXPECT_EQ(cuda::codegen::rows::scan_decline(across, any), "elements of a row that do not lie side by side");
}

}  // namespace
}  // namespace npusim
