// Rows transformed on the host against the interpreter: every method for a length, real and complex rows, few and
// many, along memory and across it, on every instruction set.
#include "backends/cpu/fourier/fourier.h"

#include <gtest/gtest.h>

#include "backends/cpu/allocations.h"
#include "backends/cpu/instruction_sets.h"
#include "base/threads.h"
#include "kernel/evaluate.h"
#include "kernel/fourier_kernels.h"

namespace npusim::cpu::fourier {
namespace {

using test::Draws;
using test::FourierCase;
using test::FourierKind;
using test::FourierSpec;

std::vector<void*> arguments(std::vector<HostTensor>& memory) {
  std::vector<void*> args;
  for (HostTensor& t : memory) args.push_back(t.data.data());
  return args;
}

void run_as_interpreted(const FourierCase& c, int threads) {
  ASSERT_TRUE(check_kernel(c.kernel).empty()) << check_kernel(c.kernel)[0] << "\n" << to_text(c.kernel);
  std::vector<HostTensor> expected = c.memory, found = c.memory;
  evaluate(c.kernel, arguments(expected));
  const ThreadCount limit(threads);
  const std::unique_ptr<BoundStep> step = make_fourier_step(c.kernel, arguments(found), threads);
  const std::unique_ptr<std::byte[]> scratch(new std::byte[step->scratch_bytes() + 64]);
  std::fill_n(scratch.get(), step->scratch_bytes() + 64, std::byte{0xff});
  step->set_scratch(scratch.get() + (64 - reinterpret_cast<uintptr_t>(scratch.get()) % 64));
  for (int run = 0; run < 2; ++run) {
    const int64_t before = allocations();
    step->run();
    EXPECT_EQ(allocations() - before, 0);
    for (size_t i = 0; i < c.kernel.args.size(); ++i) {
      const KernelArg& arg = c.kernel.args[i];
      if (!arg.written) continue;
      ASSERT_LT(test::far(expected[i], found[i]), test::bound_of(arg.dtype))
          << i << ", " << step->describe() << ", " << threads << " threads\n"
          << to_text(c.kernel);
    }
  }
}

TEST(Fourier, GivesWhatTheInterpreterGives) {
  on_every_instruction_set([] {
    Draws d(7);
    for (int n = 0; n < 400; ++n) {
      const FourierSpec spec = test::draw_fourier(d, n < 80 ? 2 + n : d.whole(2, n % 20 == 0 ? 700 : 130));
      ASSERT_NO_FATAL_FAILURE(run_as_interpreted(test::fourier_case(d, spec), 1 + n % 3));
    }
  });
}

// Passes of every radix, two lengths with and without columns that are none, convolutions; few rows and many.
TEST(Fourier, LongRows) {
  Draws d(8);
  for (const int64_t length : {256, 289, 512, 961, 1000, 1021, 1024, 2042, 2310, 4096, 4099, 6000, 16384, 30030})
    for (const FourierKind kind : {FourierKind::complex, FourierKind::real, FourierKind::signal})
      for (const int64_t rows : {1, 3, 17}) {
        if (rows > 1 && length > 4096) continue;
        FourierSpec s{.kind = kind, .rows = {rows}, .length = length, .given = length, .kept = length};
        s.dtype = rows == 3 ? DType::f64 : DType::f32;
        if (kind == FourierKind::signal) s.given = length / 2 + 1;
        if (kind == FourierKind::real) s.kept = length / 2 + 1;
        ASSERT_NO_FATAL_FAILURE(run_as_interpreted(test::fourier_case(d, s), 2));
      }
}

// The same bits whatever the threads, and of each row alone.
TEST(Fourier, RowsDoNotDependOnTheirTeam) {
  Draws d(9);
  for (const int64_t length : {60, 1024, 2042}) {
    const FourierCase c = test::fourier_case(
        d, {.kind = FourierKind::real, .rows = {70}, .length = length, .given = length, .kept = length / 2 + 1});
    std::vector<std::vector<HostTensor>> found;
    for (const int threads : {1, 2, 5}) {
      found.push_back(c.memory);
      const ThreadCount limit(threads);
      const std::unique_ptr<BoundStep> step = make_fourier_step(c.kernel, arguments(found.back()), threads);
      std::vector<std::byte> scratch(step->scratch_bytes() + 64);
      step->set_scratch(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
      step->run();
      for (size_t i = 1; i < 3; ++i) EXPECT_EQ(found[0][i].data, found.back()[i].data) << threads;
    }
  }
}

}  // namespace
}  // namespace npusim::cpu::fourier
