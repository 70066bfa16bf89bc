// Runs a check once for every instruction set in use (base/instruction_set.h) that the vector loops are compiled for.
#pragma once
#include <gtest/gtest.h>

// The targets must be chosen before Highway is read.
// clang-format off
#include "backends/cpu/vector_targets.h"
#include <hwy/highway.h>
#include "base/instruction_set.h"
// clang-format on

namespace npusim::cpu {

template <class Check>
void on_every_instruction_set(Check&& check) {
  instruction_set();
  const int64_t all = hwy::SupportedTargets();
  bool checked = false;
  for (int64_t best : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON}) {
    if (!(all & HWY_TARGETS & best)) continue;
    SCOPED_TRACE(hwy::TargetName(best));
    hwy::GetChosenTarget().Update(best);
    check();
    checked = true;
    if (::testing::Test::HasFatalFailure()) break;
  }
  hwy::GetChosenTarget().Update(all);
  if (!checked) check();
}

}  // namespace npusim::cpu
