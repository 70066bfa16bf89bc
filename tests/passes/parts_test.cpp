// Kernels that a target runs as several: the graph has them before memory is planned, and means the same.
#include <gtest/gtest.h>

#include "kernel/facts/order.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;

// The CPU's rules; its device runs kernel IR, in parts or not.
class InParts : public CodegenTarget {
 public:
  InParts() { config_ = find_target("cpu")->config(); }
  std::string refuse(const Kernel&) const override { return {}; }
  Unfused in_parts(const Kernel& kernel) const override { return unfuse(kernel); }
};

const InParts target;

RunOptions in_parts() {
  RunOptions options;
  options.target = &target;
  return options;
}

const char* const attention =
    "input %q: float32[1, 2, 5, 16]\ninput %k: float32[1, 2, 7, 16]\ninput %v: float32[1, 2, 7, 16]\n"
    "%y: float32[1, 2, 5, 16] = aten.scaled_dot_product_attention.default(%q, %k, %v, None)\n"
    "%z: float32[1, 2, 5, 16] = aten.silu.default(%y)\noutput %z\n";

TEST(Parts, AttentionIsThreeSteps) {
  const GraphRun whole = run_graph(attention), parts = run_graph(attention, in_parts());
  EXPECT_EQ(whole.steps(), 1U);
  ASSERT_EQ(parts.steps(), 3U);
  EXPECT_EQ(parts.fusions, whole.fusions);
  for (const Step& step : parts.method().steps) {
    EXPECT_EQ(step.origins, whole.method().steps[0].origins);
    EXPECT_EQ(parts.program->kernels[static_cast<size_t>(step.kernel)].contraction, nullptr);
  }
}

// What is between parts has a place in the arena as long as they need it: the softmax is computed in the scores' place,
// which the second attention has again.
TEST(Parts, WhatIsBetweenThemIsPlanned) {
  const std::string twice =
      "input %q: float32[1, 2, 50, 16]\n"
      "%a: float32[1, 2, 50, 16] = aten.scaled_dot_product_attention.default(%q, %q, %q, None)\n"
      "%b: float32[1, 2, 50, 16] = aten.scaled_dot_product_attention.default(%a, %a, %a, None)\noutput %b\n";
  const GraphRun run = run_graph(twice, in_parts());
  ASSERT_EQ(run.steps(), 6U);
  const uint64_t scores = 2 * 50 * 50 * 4, values = 2 * 50 * 16 * 4;
  EXPECT_GE(run.method().arenas[0].bytes, scores);
  EXPECT_LT(run.method().arenas[0].bytes, scores + 2 * values);
}

// What several begin with is computed once: here the scores and their softmax. In place of an operand that differs it
// is another one.
TEST(Parts, EqualPartsAreOne) {
  const std::string head =
      "input %q: float32[1, 2, 5, 16]\ninput %k: float32[1, 2, 7, 16]\ninput %v: float32[1, 2, 7, 16]\n"
      "input %w: float32[1, 2, 7, 16]\n"
      "%a: float32[1, 2, 5, 16] = aten.scaled_dot_product_attention.default(%q, %k, %v, None)\n";
  const std::string tail = "output %a\noutput %b\n";
  const GraphRun one = run_graph(
      head + "%b: float32[1, 2, 5, 16] = aten.scaled_dot_product_attention.default(%q, %k, %w, None)\n" + tail,
      in_parts());
  EXPECT_EQ(one.steps(), 4U);
  const GraphRun two = run_graph(
      head + "%b: float32[1, 2, 5, 16] = aten.scaled_dot_product_attention.default(%a, %k, %w, None)\n" + tail,
      in_parts());
  EXPECT_EQ(two.steps(), 6U);
}

// One kernel stays what it is, with its contraction; and what is known at load is computed at load.
TEST(Parts, OneKernelStaysOne) {
  const GraphRun run = run_graph(
      "input %x: float32[4, 40]\nweight %w: float32[40, 40] = \"w\"\n"
      "%a: float32[4, 40] = aten.matmul.default(%x, %w)\noutput %a\n",
      in_parts());
  ASSERT_EQ(run.steps(), 1U);
  EXPECT_NE(run.program->kernels[0].contraction, nullptr);
  const GraphRun early = run_graph(
      "weight %w: float32[1, 2, 6, 8] = \"w\"\n"
      "%y: float32[1, 2, 6, 8] = aten.scaled_dot_product_attention.default(%w, %w, %w, None)\noutput %y\n",
      in_parts());
  EXPECT_EQ(early.steps(), 0U);
  EXPECT_EQ(early.program->recipes.steps.size(), 3U);
}

// An order becomes its merges, be it only one.
TEST(Parts, OrdersAreMerged) {
  for (const int64_t length : {2, 3, 70}) {
    const GraphRun run =
        run_graph(fmt::format("input %x: float32[4, {0}]\n"
                              "%v: float32[4, {0}], %i: int64[4, {0}] = aten.sort.stable(%x, stable=true, dim=1)\n"
                              "output %i\n",
                              length),
                  in_parts());
    EXPECT_EQ(run.steps(), length == 2 ? 1U : length == 3 ? 2U : 7U);
    for (const Kernel& kernel : run.program->kernels) EXPECT_FALSE(has_order(kernel));
  }
}

}  // namespace
}  // namespace npusim
