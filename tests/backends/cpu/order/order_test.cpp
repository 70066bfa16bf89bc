// Rows ordered on the host against the interpreter: all dtypes, strides and counts, short rows and long ones, one
// thread and several.
#include "backends/cpu/order/order.h"

#include <gtest/gtest.h>

#include "backends/cpu/allocations.h"
#include "base/threads.h"
#include "kernel/evaluate.h"
#include "kernel/order_kernels.h"

namespace npusim::cpu::order {
namespace {

using test::Draws;
using test::OrderCase;

std::vector<void*> arguments(std::vector<HostTensor>& memory) { return {memory[0].data.data(), memory[1].data.data()}; }

void run_as_interpreted(const OrderCase& c, int threads) {
  std::vector<HostTensor> expected = c.memory, found = c.memory;
  evaluate(c.kernel, arguments(expected));
  const ThreadCount limit(threads);
  const std::unique_ptr<BoundStep> step = make_order_step(c.kernel, arguments(found), threads);
  const std::unique_ptr<std::byte[]> scratch(new std::byte[step->scratch_bytes() + 64]);
  step->set_scratch(scratch.get() + (64 - reinterpret_cast<uintptr_t>(scratch.get()) % 64));
  for (int run = 0; run < 2; ++run) {
    const int64_t before = allocations();
    step->run();
    EXPECT_EQ(allocations() - before, 0);
    ASSERT_EQ(expected[1].data, found[1].data) << threads << " threads\n" << to_text(c.kernel);
  }
}

TEST(Order, GivesWhatTheInterpreterGives) {
  Draws d(3);
  for (int n = 0; n < 600; ++n) run_as_interpreted(test::draw_order(d, n % 20 == 0 ? 3000 : 300), 1 + n % 3);
}

// Random keys, which are sorted by one digit, next to those of which many share it, where counts are at an end.
TEST(Order, FewAndManyOfADigit) {
  Draws d(5);
  for (const DType dtype : {DType::i32, DType::i64, DType::f32, DType::f64})
    for (const int64_t n : {63, 64, 1000, 4096, 65535, 65536})
      for (const bool few : {false, true}) {
        OrderCase c;
        c.kernel = test::order_kernel(dtype, {}, n, n, d.chance(0.5));
        for (const KernelArg& arg : c.kernel.args) c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
        for (int64_t i = 0; i < n; ++i) test::draw_element(d, c.memory[0], i, few);
        run_as_interpreted(c, 1);
      }
}

// Keys of 64 bits all over their range, some of which are alike in the first half of them or in all, next to those of
// which so many are that only whole keys tell them apart.
TEST(Order, KeysAlikeInTheirFirstHalf) {
  Draws d(6);
  for (const int64_t n : {2, 63, 64, 1000, 4095, 65536, 70001})
    for (const int64_t alike : {0, 1, 12, 40})
      for (const int threads : {1, 3}) {
        OrderCase c;
        c.kernel = test::order_kernel(DType::i64, {}, n, n, d.chance(0.5));
        for (const KernelArg& arg : c.kernel.args) c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
        auto* keys = reinterpret_cast<int64_t*>(c.memory[0].data.data());
        for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<int64_t>(d.random());
        for (int64_t k = 0; k < alike; ++k) {
          const int64_t from = d.whole(0, n - 1), to = k < 20 ? d.whole(0, n - 1) : k % n;
          keys[to] = (k < 20 ? keys[from] : int64_t{1} << 40) ^ d.whole(0, 3);
        }
        run_as_interpreted(c, threads);
      }
}

TEST(Order, SharesALongRow) {
  Draws d(4);
  for (const DType dtype : {DType::boolean, DType::bf16, DType::f32, DType::i64, DType::f64})
    for (const int64_t count : {int64_t{1}, int64_t{50}, int64_t{9000}, int64_t{70001}})
      for (const bool few : {false, true}) {
        OrderCase c;
        c.kernel = test::order_kernel(dtype, {}, 70001, count, d.chance(0.5));
        for (const KernelArg& arg : c.kernel.args) c.memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
        for (int64_t i = 0; i < 70001; ++i) test::draw_element(d, c.memory[0], i, few);
        run_as_interpreted(c, 3);
        c.kernel = test::order_kernel(dtype, {}, 70001, count, d.chance(0.5), d.whole(0, 70001 - count));
        run_as_interpreted(c, 3);
      }
}

}  // namespace
}  // namespace npusim::cpu::order
