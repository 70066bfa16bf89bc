// Every kernel of every zoo model that is no contraction prints in every dialect, and its CUDA text compiles.
#include <gtest/gtest.h>

#include "nvrtc.h"
#include "print/print.h"
#include "print/zoo_kernels.h"

namespace npusim {
namespace {

TEST(PrintZoo, every_kernel_prints) {
  EXPECT_GT(zoo_kernels().size(), 100U);
  for (const Kernel& kernel : zoo_kernels())
    for (const Dialect* dialect : {&cuda_dialect, &metal_dialect})
      EXPECT_EQ(cannot_print(kernel, *dialect), std::nullopt) << dialect->name << "\n"
                                                              << kernel.name << "\n"
                                                              << to_text(kernel);
  std::printf("  %zu different kernels\n", zoo_kernels().size());
}

TEST(PrintZoo, cuda_text_compiles) {
  if (!has_nvrtc()) GTEST_SKIP() << "SKIP: no NVRTC on this machine";
  std::vector<const Kernel*> kernels;
  for (const Kernel& kernel : zoo_kernels()) kernels.push_back(&kernel);
  const std::string source = print_kernels(kernels, cuda_dialect);
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const Cubin cubin = compile_cuda(source, architecture);
    EXPECT_EQ(cubin.problem, "") << architecture;
    EXPECT_FALSE(cubin.image.empty()) << architecture;
  }
}

}  // namespace
}  // namespace npusim
