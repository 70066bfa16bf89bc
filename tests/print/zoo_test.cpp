// Every kernel of every zoo model, contractions as rows, prints in every dialect, and its CUDA text compiles, with
// lanes where they are worth it.
#include <gtest/gtest.h>

#include <algorithm>

#include "nvrtc.h"
#include "print/print.h"
#include "print/zoo_kernels.h"

namespace npusim {
namespace {

TEST(PrintZoo, every_kernel_prints) {
  EXPECT_GT(zoo_kernels().size(), 500U);
  for (const Kernel& kernel : zoo_kernels())
    for (const Dialect* dialect : {&cuda_dialect, &metal_dialect})
      EXPECT_EQ(cannot_print(kernel, *dialect), std::nullopt) << dialect->name << "\n"
                                                              << kernel.name << "\n"
                                                              << to_text(kernel);
  std::printf("  %zu different kernels\n", zoo_kernels().size());
}

// In sources of some kernels each, by content: a change in one model leaves the others' as they were.
TEST(PrintZoo, cuda_text_compiles) {
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC on this machine";
  constexpr size_t count = 64;
  std::vector<std::vector<const Kernel*>> groups(count);
  for (const Kernel& kernel : zoo_kernels()) groups[content_hash(kernel) % count].push_back(&kernel);
  std::vector<std::string> sources;
  size_t lanes = 0;
  for (std::vector<const Kernel*>& group : groups) {
    std::sort(group.begin(), group.end(),
              [](const Kernel* a, const Kernel* b) { return kernel_name(*a) < kernel_name(*b); });
    std::vector<Scheduled> scheduled;
    for (const Kernel* kernel : group) {
      scheduled.push_back({kernel, choose_lanes(*kernel, cuda_dialect, 132)});
      lanes += scheduled.back().schedule.lanes > 1;
    }
    if (!group.empty()) sources.push_back(print_kernels(scheduled, cuda_dialect));
  }
  EXPECT_GT(lanes, 100U);
  const std::string architectures[] = {"sm_80", "sm_90a"};
  const CudaCheck check = check_cuda(sources, architectures);
  for (const std::string& problem : check.problems) ADD_FAILURE() << problem;
  std::printf("  %zu of %zu sources compiled, the others before\n", check.compiled, sources.size() * 2);
}

}  // namespace
}  // namespace npusim
