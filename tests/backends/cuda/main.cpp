// Tests that need a GPU: where there is none they say why, and are skipped.
#include <gtest/gtest.h>

#include <cstdio>

#include "backends/cuda/gpu.h"

int main(int argc, char** argv) {
  if (const std::string why = npusim::test::why_no_gpu(); !why.empty()) {
    std::printf("SKIP: %s\n", why.c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);  // which lists the cases, and so opens the device
  std::printf("on %s\n", npusim::test::gpu()->description().c_str());
  return RUN_ALL_TESTS();
}
