// The arena: results take the place of operands that end, and only of those.
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;

// Kernels stay what their operators are.
GraphRun unfused(const std::string& text) { return run_graph(text, {.disabled = {"all"}}); }

TEST(Memory, ChainsStayInOnePlace) {
  const GraphRun run = unfused(
      "input %x: float32[5, 64]\n"
      "%a: float32[5, 64] = aten.exp.default(%x)\n"
      "%b: float32[5, 64] = aten.tanh.default(%a)\n"
      "%s: float32[5, 64] = aten.softmax.int(%b, dim=1)\n"
      "%c: float32[5, 64] = aten.mul.Tensor(%s, 3.0)\n"
      "%y: float32[5, 64] = aten.sin.default(%c)\noutput %y\n");
  EXPECT_GE(run.steps(), 5U);
  EXPECT_EQ(run.method().arenas[0].bytes, 5 * 64 * 4U);
  EXPECT_EQ(run.method().arenas[0].lower_bound_bytes, 5 * 64 * 4U);
}

TEST(Memory, WhatIsNeededLaterStays) {
  const GraphRun run = unfused(
      "input %x: float32[64]\n"
      "%a: float32[64] = aten.exp.default(%x)\n"
      "%b: float32[64] = aten.tanh.default(%a)\n"
      "%c: float32[64] = aten.sin.default(%b)\n"
      "%y: float32[64] = aten.mul.Tensor(%c, %a)\noutput %y\n");
  EXPECT_EQ(run.method().arenas[0].bytes, 2 * 64 * 4U);
}

// Read transposed, broadcast, reversed or by index, an operand is still needed when the first results are stored.
TEST(Memory, OperandsReadElsewhereStay) {
  for (const char* op : {"aten.add.Tensor(%a, %t)", "aten.mul.Tensor(%t, %a)", "aten.sub.Tensor(%a, %f)",
                         "aten.cumsum.default(%a, dim=1)", "aten.roll.default(%a, shifts=[3], dims=[1])"}) {
    const GraphRun run = unfused(
        "input %x: float32[32, 32]\n"
        "%a: float32[32, 32] = aten.exp.default(%x)\n"
        "%t: float32[32, 32] = aten.transpose.int(%a, dim0=0, dim1=1)\n"
        "%f: float32[32, 32] = aten.flip.default(%a, dims=[0])\n"
        "%y: float32[32, 32] = " +
        std::string(op) + "\n%z: float32[32, 32] = aten.tanh.default(%y)\noutput %z\n");
    EXPECT_GE(run.method().arenas[0].bytes, 32 * 32 * 4U) << op;
  }
}

TEST(Memory, BroadcastOperandsStay) {
  const GraphRun run = unfused(
      "input %x: float32[1, 32]\ninput %b: float32[32, 32]\n"
      "%a: float32[1, 32] = aten.exp.default(%x)\n"
      "%c: float32[32, 32] = aten.add.Tensor(%b, %a)\n"
      "%y: float32[32, 32] = aten.tanh.default(%c)\noutput %y\n");
  EXPECT_EQ(run.method().arenas[0].bytes, 33 * 32 * 4U);
}

}  // namespace
}  // namespace npusim
