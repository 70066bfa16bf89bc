// Orders of rows in a block's memory: executed (on the CPU where there is no GPU), and the same indices as the
// interpreter's.
#include "backends/cuda/codegen/rows/order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/harness/check.h"
#include "kernel/evaluate.h"
#include "kernel/order_kernels.h"

namespace npusim {
namespace {

using test::Draws, test::OrderCase;

OrderCase drawn_row(Draws& d, DType dtype, const Shape& rows, int64_t length, int64_t count, bool descending,
                    int64_t first) {
  OrderCase c;
  c.kernel = test::order_kernel(dtype, rows, length, count, descending, first);
  for (const KernelArg& arg : c.kernel.args) c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
  const bool few = d.chance(0.5);
  for (int64_t i = 0; i < c.kernel.args[0].elements; ++i) test::draw_element(d, c.memory[0], i, few);
  return c;
}

// Each in any order of threads.
void check_orders(std::vector<OrderCase> cases) {
  std::vector<cuda::codegen::GeneratedKernel> made;
  std::vector<cuda::Source> sources;
  std::string functions;
  std::set<std::string> symbols;
  for (const OrderCase& c : cases) {
    made.push_back(cuda::codegen::choose::make_kernel(c.kernel, any, {false, false}));
    EXPECT_TRUE(made.back().how.starts_with("ordered rows")) << made.back().how;
    EXPECT_TRUE(cuda::codegen::choose::find_parts(c.kernel, any).steps.empty());
    if (!symbols.insert(made.back().symbol).second) continue;
    sources.push_back({made.back().symbol, made.back().functions});
    functions += made.back().functions;
  }
  check_nvrtc(functions);
  TextRunner machine(sources);
  ASSERT_EQ(machine.error(), "");
  for (size_t n = 0; n < cases.size(); ++n) {
    OrderCase& c = cases[n];
    std::vector<HostTensor> expected = c.memory, found = c.memory;
    void* args[] = {expected[0].data.data(), expected[1].data.data()};
    evaluate(c.kernel, args);
    EXPECT_EQ(machine.run(c.kernel, made[n], found, n % 2 ? mslx::Order::random : mslx::Order::forward, {false, false}),
              "");
    EXPECT_TRUE(expected[1].data == found[1].data) << to_text(c.kernel) << made[n].functions;
  }
}

// Memory in any order of its dimensions, a part of the positions.
TEST(CudaOrder, DrawnRows) {
  Draws d(7);
  std::vector<OrderCase> cases;
  while (cases.size() < 60) {
    OrderCase c = test::draw_order(d, cases.size() % 6 == 0 ? 1500 : 90);
    if (cuda::codegen::rows::order_decline(c.kernel).empty()) cases.push_back(std::move(c));
  }
  check_orders(std::move(cases));
}

// Every number of elements and threads, all of a row and a few positions of it.
TEST(CudaOrder, EveryShare) {
  Draws d(8);
  std::vector<OrderCase> cases;
  for (const int64_t length : {1, 2, 31, 32, 33, 64, 65, 128, 129, 256, 257, 511, 700, 1024, 2048, 2049}) {
    const DType dtype = length % 3 == 0 ? DType::f64 : length % 3 == 1 ? DType::f32 : DType::bf16;
    cases.push_back(drawn_row(d, dtype, {length < 200 ? 5 : 2}, length, length, length % 2 == 0, 0));
    cases.push_back(drawn_row(d, dtype, {3}, length, 1, length % 2 == 1, (length - 1) / 2));
  }
  cases.push_back(drawn_row(d, DType::f32, {1}, 8192, 8192, false, 0));
  cases.push_back(drawn_row(d, DType::i64, {1}, 4096, 20, true, 0));
  cases.push_back(drawn_row(d, DType::f16, {2}, 5000, 700, true, 4300));
  check_orders(std::move(cases));
}

// One position of rows that no block can hold.
TEST(CudaOrder, OnePositionOfLongRowsByDigits) {
  const auto position = [](DType dtype, const Shape& rows, int64_t first, bool descending) {
    return test::order_kernel(dtype, rows, 70001, 1, descending, first);
  };
  check_steps({{"median", position(DType::f32, {}, 35000, false), 0, {"rows", "rows"}},
               {"largest", position(DType::bf16, {3}, 0, true), 0},
               {"kth", position(DType::i64, {2}, 70000, false), 0}});
}

TEST(CudaOrder, SaysWhyItDeclines) {
  const auto why = [](DType dtype, const Shape& rows, int64_t length, int64_t count) {
    return cuda::codegen::rows::order_decline(test::order_kernel(dtype, rows, length, count, false));
  };
  EXPECT_EQ(why(DType::f32, {2}, 8192, 5), "");
  EXPECT_EQ(why(DType::f32, {2}, 8193, 5), "rows of 8193 elements");
  EXPECT_EQ(why(DType::f64, {2}, 8192, 5), "rows of 8192 elements of float64");
  EXPECT_EQ(why(DType::f32, {0}, 8, 5), "nothing to order");
  EXPECT_EQ(why(DType::f32, {2}, 8, 0), "nothing to order");
}

}  // namespace
}  // namespace npusim
