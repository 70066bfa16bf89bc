// Every sample kernel printed as MSL: checked, executed in the emulator in three orders, compared with evaluate().
#include <gtest/gtest.h>

#include "print/print.h"
#include "run_printed.h"

namespace npusim {
namespace {

std::vector<PrintSample> printable_samples() {
  std::vector<PrintSample> samples;
  for (PrintSample& sample : print_samples())
    if (!cannot_print(sample.kernel, metal_dialect)) samples.push_back(std::move(sample));
  return samples;
}

// The text is held to the compiler and to the reference on any machine.
TEST(PrintedMetal, every_text_passes_the_check) {
  for (const PrintSample& sample : printable_samples()) {
    const mslx::Outcome outcome =
        mslx::check_file(mslx::write_temporary(sample.name + ".metal", print_kernel(sample.kernel, metal_dialect)));
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    EXPECT_EQ(outcome.messages, "") << sample.name;
  }
}

TEST(PrintedMetal, computes_what_evaluate_does) {
  const std::vector<PrintSample> samples = printable_samples();
  const mslx::Library library = compile_samples(samples);
  ASSERT_EQ(library.error, "");
  for (const PrintSample& sample : samples) {
    if (sample.traps) continue;
    const std::vector<HostTensor> expected = sample_reference(sample);
    std::vector<HostTensor> first;
    for (const mslx::Order order : {mslx::Order::forward, mslx::Order::reverse, mslx::Order::random}) {
      std::vector<HostTensor> found;
      EXPECT_EQ(run_sample(sample, library, {.order = order, .force_fibers = order != mslx::Order::forward}, found), 0);
      EXPECT_EQ(sample_difference(sample, expected, found), "");
      if (first.empty()) first = found;
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(found[i].data == first[i].data)
            << sample.name << ": argument " << i << " depends on the order of threads";
    }
  }
}

// The schedule is the caller's: whatever is accepted computes the same.
TEST(PrintedMetal, computes_the_same_under_every_schedule) {
  int ran = 0;
  for (const RowLoop row : {RowLoop::none, RowLoop::thread, RowLoop::warp, RowLoop::block})
    for (const int threads : {32, 192}) {
      std::vector<PrintSample> samples;
      for (PrintSample& sample : printable_samples()) {
        sample.schedule = Schedule{row, threads};
        sample.tolerance *= 4;  // sums of other lengths
        if (!sample.traps && !cannot_print(sample.kernel, metal_dialect, *sample.schedule))
          samples.push_back(std::move(sample));
      }
      EXPECT_GT(samples.size(), 15U);
      const mslx::Library library = compile_samples(samples);
      ASSERT_EQ(library.error, "");
      for (const PrintSample& sample : samples) {
        std::vector<HostTensor> found;
        EXPECT_EQ(run_sample(sample, library, {.force_fibers = false}, found), 0);
        EXPECT_EQ(sample_difference(sample, sample_reference(sample), found), "")
            << static_cast<int>(row) << ", " << threads;
        ++ran;
      }
    }
  EXPECT_GT(ran, 200);
}

TEST(PrintedMetal, traps) {
  const std::vector<PrintSample> samples = printable_samples();
  const mslx::Library library = compile_samples(samples);
  ASSERT_EQ(library.error, "");
  int traps = 0;
  for (const PrintSample& sample : samples) {
    if (!sample.traps) continue;
    std::vector<HostTensor> memory;
    const int code = run_sample(sample, library, {}, memory);
    EXPECT_NE(code, 0) << sample.name;
    EXPECT_EQ(trap_message(sample.kernel, code).find("unknown"), std::string::npos);
    ++traps;
  }
  EXPECT_EQ(traps, 3);
}

TEST(PrintedMetal, has_no_races) {
  std::vector<PrintSample> samples = printable_samples();
  std::erase_if(samples, [](const PrintSample& s) { return s.distinct; });  // zeroed indices would meet
  std::vector<const Kernel*> kernels;
  for (const PrintSample& sample : samples) kernels.push_back(&sample.kernel);
  const std::string object =
      mslx::compile_for_races(mslx::write_temporary("races.metal", print_kernels(kernels, metal_dialect)));
  ASSERT_NE(object, "");
  for (const PrintSample& sample : samples) {
    std::vector<size_t> bytes;
    for (const KernelArg& arg : sample.kernel.args)
      bytes.push_back(static_cast<size_t>(arg.elements) * dtype_size(arg.dtype));
    if (takes_trap(sample.kernel)) bytes.push_back(4);
    const LaunchShape launch = launch_of(sample.kernel, metal_dialect);
    const std::optional<int> races =
        mslx::count_races(object, kernel_name(sample.kernel), static_cast<unsigned>(launch.blocks),
                          static_cast<unsigned>(launch.threads), bytes);
    if (!races) GTEST_SKIP() << "SKIP: ThreadSanitizer does not run here";
    EXPECT_EQ(*races, 0) << sample.name;
  }
}

}  // namespace
}  // namespace npusim
