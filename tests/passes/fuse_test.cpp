// Fusion by data flow: what looks like a known pattern but is none, values that others read too, broadcasts.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "kernel/facts/memory.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;

// Values inside a chain that are graph outputs, and siblings that read them, are all computed.
TEST(Fuse, W28OutputsInsideAChainAreWritten) {
  run_graph(
      "input %x: float32[3, 40]\n"
      "%a: float32[3, 40] = aten.relu.default(%x)\n"
      "%b: float32[3, 40] = aten.mul.Tensor(%a, 2.0)\n"
      "%c: float32[3, 40] = aten.exp.default(%b)\n"
      "output %c\noutput %a\noutput %b\n");
  run_graph(
      "input %x: float32[3, 40]\n"
      "input %w: float32[40, 8]\n"
      "%m: float32[3, 8] = aten.matmul.default(%x, %w)\n"
      "%r: float32[3, 8] = aten.relu.default(%m)\n"
      "%y: float32[3, 8] = aten.neg.default(%r)\n"
      "output %y\noutput %m\noutput %r\n");
}

TEST(Fuse, W31SiblingsAllSeeTheirValue) {
  run_graph(
      "input %x: float32[4, 16]\n"
      "%a: float32[4, 16] = aten.exp.default(%x)\n"
      "%b: float32[4, 16] = aten.sin.default(%a)\n"
      "%c: float32[4, 16] = aten.cos.default(%a)\n"
      "%m: float32[4, 1] = aten.mean.dim(%a, dim=[1], keepdim=true)\n"
      "%d: float32[4, 16] = aten.mul.Tensor(%b, %c)\n"
      "%e: float32[4, 16] = aten.add.Tensor(%d, %m)\n"
      "%y: float32[4, 16] = aten.add.Tensor(%e, %b)\n"
      "output %y\noutput %m\n");
}

// Silu and the product are one kernel wherever the other factor is computed and whichever side it is on.
TEST(Fuse, W51ProductsOfSilu) {
  const std::string start =
      "input %x: float32[4, 8]\n"
      "weight %g: float32[16, 8] = \"gate\"\nweight %u: float32[16, 8] = \"up\"\n"
      "%gate: float32[4, 16] = aten.linear.default(%x, %g, None)\n"
      "%s: float32[4, 16] = aten.silu.default(%gate)\n"
      "%up: float32[4, 16] = aten.linear.default(%x, %u, None)\n";
  for (const char* product : {"%s, %up", "%up, %s"}) {
    const GraphRun run =
        run_graph(start + fmt::format("%y: float32[4, 16] = aten.mul.Tensor({})\noutput %y\n", product));
    EXPECT_EQ(run.fusions.at("silu_mul"), 1) << product;
    EXPECT_EQ(run.steps(), 2U) << product;
  }
}

// Only the last dimension makes an RMS norm of rows; others, without keepdim or with a weight of another shape,
// are what they say.
TEST(Fuse, W32MeansOverOtherDimensions) {
  struct Case {
    const char *mean, *dim, *weight;
  };
  for (const Case& c : {Case{"1, 6", "dim=[0], keepdim=true", "6"}, Case{"6", "dim=[0]", "6"},
                        Case{"6, 1", "dim=[1], keepdim=true", "6, 1"}, Case{"6, 1", "dim=[-1], keepdim=true", "1"},
                        Case{"6", "dim=[1]", "6, 6"}, Case{"1, 1", "dim=[0, 1], keepdim=true", "6"}})
    run_graph(
        fmt::format("input %x: float32[6, 6]\n"
                    "weight %w: float32[{2}] = \"w\"\n"
                    "%p: float32[6, 6] = aten.pow.Tensor_Scalar(%x, exponent=2)\n"
                    "%m: float32[{0}] = aten.mean.dim(%p, {1})\n"
                    "%e: float32[{0}] = aten.add.Tensor(%m, 0.001)\n"
                    "%r: float32[{0}] = aten.rsqrt.default(%e)\n"
                    "%n: float32[6, 6] = aten.mul.Tensor(%x, %r)\n"
                    "%y: float32[6, 6] = aten.mul.Tensor(%w, %n)\n"
                    "output %y\n",
                    c.mean, c.dim, c.weight));
}

// A relu behind a sum takes up broadcasts and numbers.
TEST(Fuse, W33SumsBroadcast) {
  for (const auto& [shape, other] : {std::pair{"1, 5", "%z"}, {"4, 1", "%z"}, {"5", "%z"}, {"4, 5", "0.25"}})
    run_graph(
        fmt::format("input %x: float32[4, 5]\n"
                    "input %z: float32[{}]\n"
                    "%s: float32[4, 5] = aten.add.Tensor(%x, {})\n"
                    "%y: float32[4, 5] = aten.relu.default(%s)\n"
                    "output %y\n",
                    shape, other));
}

// [B, H, S, D] queries, [B, H, C, D] keys and values; `softmax` and `product` say what is done with the scores.
std::string attention(const std::string& dim, const std::string& mask, const std::string& product,
                      const std::string& result) {
  return fmt::format(
      "input %q: float32[2, 3, 6, 4]\n"
      "input %k: float32[2, 3, 6, 4]\n"
      "input %v: float32[2, 3, 6, 4]\n"
      "input %mask: float32[{1}]\n"
      "%kt: float32[2, 3, 4, 6] = aten.transpose.int(%k, dim0=2, dim1=3)\n"
      "%s: float32[2, 3, 6, 6] = aten.matmul.default(%q, %kt)\n"
      "%d: float32[2, 3, 6, 6] = aten.mul.Tensor(%s, 0.5)\n"
      "%a: float32[2, 3, 6, 6] = aten.add.Tensor(%d, %mask)\n"
      "%p: float32[2, 3, 6, 6] = aten.softmax.int(%a, dim={0})\n"
      "%y: float32[{3}] = aten.matmul.default({2})\n"
      "output %y\n",
      dim, mask, product, result);
}

// Attention is a softmax along the keys, its weights times the values; anything like it is not.
TEST(Fuse, W34WhatIsAttention) {
  const std::string plain = "2, 3, 6, 4", turned = "2, 3, 4, 6";
  for (const char* mask : {"6", "6, 6", "6, 1", "2, 1, 1, 6", "2, 3, 6, 6", "1, 3, 1, 1"}) {
    const GraphRun run = run_graph(attention("-1", mask, "%p, %v", plain));
    EXPECT_EQ(run.fusions.at("attention"), 1) << mask;
    EXPECT_EQ(run.steps(), 1U) << mask;
  }
  for (const char* dim : {"2", "1", "0"}) {
    const GraphRun run = run_graph(attention(dim, "6, 6", "%p, %v", plain));
    EXPECT_FALSE(run.fusions.contains("attention")) << dim;
  }
  run_graph(attention("-1", "6, 6", "%kt, %p", turned));  // summed over the queries
  run_graph(attention("-2", "6, 6", "%kt, %p", turned));  // the mirror: attention of the transposed scores
}

// The weights are a graph output too: they have to be there.
TEST(Fuse, W34WeightsThatAreReadStay) {
  const GraphRun run = run_graph(attention("-1", "6, 6", "%p, %v", "2, 3, 6, 4") + "output %p\n");
  EXPECT_FALSE(run.fusions.contains("attention"));
}

// Heads that share keys, at batch 2 and with more than one query: no repeated key is ever written.
TEST(Fuse, W52GroupedHeads) {
  const GraphRun run = run_graph(
      "input %q: float32[2, 6, 5, 4]\n"
      "input %k: float32[2, 2, 7, 4]\n"
      "input %v: float32[2, 2, 7, 4]\n"
      "%ku: float32[2, 2, 1, 7, 4] = aten.unsqueeze.default(%k, dim=2)\n"
      "%ke: float32[2, 2, 3, 7, 4] = aten.expand.default(%ku, size=[2, 2, 3, 7, 4])\n"
      "%kr: float32[2, 6, 7, 4] = aten.reshape.default(%ke, shape=[2, 6, 7, 4])\n"
      "%vu: float32[2, 2, 1, 7, 4] = aten.unsqueeze.default(%v, dim=2)\n"
      "%ve: float32[2, 2, 3, 7, 4] = aten.expand.default(%vu, size=[2, 2, 3, 7, 4])\n"
      "%vr: float32[2, 6, 7, 4] = aten.reshape.default(%ve, shape=[2, 6, 7, 4])\n"
      "%kt: float32[2, 6, 4, 7] = aten.transpose.int(%kr, dim0=2, dim1=3)\n"
      "%s: float32[2, 6, 5, 7] = aten.matmul.default(%q, %kt)\n"
      "%p: float32[2, 6, 5, 7] = aten.softmax.int(%s, dim=-1)\n"
      "%o: float32[2, 6, 5, 4] = aten.matmul.default(%p, %vr)\n"
      "%y: float32[2, 5, 6, 4] = aten.transpose.int(%o, dim0=1, dim1=2)\n"
      "output %y\n");
  EXPECT_EQ(run.fusions.at("attention"), 1);
  EXPECT_LE(run.steps(), 2U);
}

// Equal bodies are one kernel, whatever their nodes are called.
TEST(Fuse, W50EqualLayersShareTheirKernels) {
  std::string text = "input %h0: float32[3, 8]\n";
  for (int i = 0; i < 4; ++i)
    text += fmt::format(
        "weight %w{0}: float32[8, 8] = \"w{0}\"\n"
        "%l{0}: float32[3, 8] = aten.linear.default(%h{0}, %w{0}, None)\n"
        "%h{1}: float32[3, 8] = aten.layer_norm.default(%l{0}, None, None, normalized_shape=[8], eps=0.001)\n",
        i, i + 1);
  const GraphRun run = run_graph(text + "output %h4\n");
  EXPECT_EQ(run.steps(), 8U);
  EXPECT_LE(run.program->kernels.size(), 3U);  // the last norm may be stored otherwise
}

// A sum that a norm alone reads lies in memory as it is, not as the norm makes it wider: the last layer's kernels are
// those of the others, whose sums are read again.
TEST(Fuse, WhoReadsASumMakesItWider) {
  std::string text = "input %h0: bfloat16[3, 64]\nweight %s: bfloat16[64] = \"s\"\n";
  const auto norm = [&](int i) {
    text += fmt::format(
        "%f{0}: float32[3, 64] = aten.to.dtype(%h{0}, dtype=float32)\n"
        "%p{0}: float32[3, 64] = aten.pow.Tensor_Scalar(%f{0}, exponent=2)\n"
        "%m{0}: float32[3, 1] = aten.mean.dim(%p{0}, dim=[-1], keepdim=true)\n"
        "%e{0}: float32[3, 1] = aten.add.Tensor(%m{0}, 1e-05)\n"
        "%r{0}: float32[3, 1] = aten.rsqrt.default(%e{0})\n"
        "%n{0}: float32[3, 64] = aten.mul.Tensor(%f{0}, %r{0})\n"
        "%t{0}: bfloat16[3, 64] = aten.to.dtype(%n{0}, dtype=bfloat16)\n"
        "%y{0}: bfloat16[3, 64] = aten.mul.Tensor(%s, %t{0})\n",
        i);
  };
  for (int i = 0; i < 2; ++i) {
    norm(i);
    text += fmt::format(
        "weight %w{0}: bfloat16[64, 64] = \"w{0}\"\n"
        "%l{0}: bfloat16[3, 64] = aten.linear.default(%y{0}, %w{0}, None)\n"
        "%h{1}: bfloat16[3, 64] = aten.add.Tensor(%h{0}, %l{0})\n",
        i, i + 1);
  }
  norm(2);
  text += "output %y2\n";
  // The sums stay wide and the casts round: what is expected is of neither.
  const std::string wide = std::regex_replace(text, std::regex("bfloat16"), "float32");
  const GraphRun run = run_graph(text, {.dtype = DType::bf16, .reference = wide});
  EXPECT_EQ(run.fusions.at("rms_norm"), 3);
  EXPECT_EQ(run.steps(), 5U);
  EXPECT_EQ(run.program->kernels.size(), 2U);
}

// Several readers make it wider each for itself: no kernel is left that does nothing else.
TEST(Fuse, SeveralReadersMakeASumWider) {
  const GraphRun run = run_graph(
      "input %x: bfloat16[3, 64]\nweight %w: bfloat16[64, 64] = \"w\"\n"
      "%l: bfloat16[3, 64] = aten.linear.default(%x, %w, None)\n"
      "%h: bfloat16[3, 64] = aten.add.Tensor(%x, %l)\n"
      "%f: float32[3, 64] = aten.to.dtype(%h, dtype=float32)\n"
      "%a: float32[3, 64] = aten.softmax.int(%f, dim=-1)\n"
      "%b: float32[3, 64] = aten.layer_norm.default(%f, None, None, normalized_shape=[64], eps=0.001)\n"
      "output %a\noutput %b\n",
      {.dtype = DType::bf16, .strict = true});
  EXPECT_EQ(run.steps(), 3U);
}

// Rows of one element make a norm an epilogue with three results, of which one consumer reads two.
TEST(Fuse, TwoResultsOfOneEpilogue) {
  run_graph(
      "input %x: float32[3, 2]\n"
      "weight %b: float32[3, 1] = \"b\"\nweight %w: float32[2, 1] = \"w\"\n"
      "weight %s: float32[1] = \"s\"\nweight %t: float32[1] = \"t\"\n"
      "%a: float32[3, 1] = aten.addmm.default(%b, %x, %w)\n"
      "%n: float32[3, 1], %m: float32[3, 1], %r: float32[3, 1] = aten.native_layer_norm.default(%a, %s, %t, "
      "normalized_shape=[1], eps=1e-05)\n"
      "%y: float32[3, 1] = aten.add.Tensor(%r, %n)\noutput %y\n");
}

// One element of a value whose row is reduced by the same kernel, wherever it stands.
TEST(Fuse, OneElementBesideItsRow) {
  for (const char* last : {"aten.select.int(%d, dim=0, index=0)", "aten.select.int(%d, dim=0, index=1)",
                           "aten.select.int(%d, dim=0, index=-1)"})
    for (const int64_t n : {2, 3, 17})
      run_graph(
          fmt::format("input %x: float32[{0}]\n"
                      "%a: float32[1] = aten.amax.default(%x, dim=[-1], keepdim=true)\n"
                      "%s: float32[{0}] = aten.sub.Tensor(%x, %a)\n"
                      "%t: float32[1] = aten.sum.dim_IntList(%s, dim=[-1], keepdim=true)\n"
                      "%d: float32[{0}] = aten.div.Tensor(%s, %t)\n%y: float32[] = {1}\noutput %y\n",
                      n, last));
  for (const int64_t index : {0, 3})
    run_graph(
        fmt::format("input %x: float32[4, 6]\n"
                    "%e: float32[4, 6] = aten.exp.default(%x)\n"
                    "%t: float32[4, 1] = aten.sum.dim_IntList(%e, dim=[-1], keepdim=true)\n"
                    "%d: float32[4, 6] = aten.div.Tensor(%e, %t)\n"
                    "%y: float32[4] = aten.select.int(%d, dim=1, index={})\noutput %y\n",
                    index));
}

// Images in the target's own order of channels, read by what moves, reduces and joins them.
TEST(Fuse, W07OpsOnImagesOfAnyOrder) {
  const std::string start =
      "input %x: float32[2, 3, 5, 5]\n"
      "weight %w: float32[7, 3, 3, 3] = \"w\"\nweight %v: float32[6, 3, 3, 3] = \"v\"\n"
      "%a: float32[2, 7, 5, 5] = aten.conv2d.default(%x, %w, None, padding=[1, 1])\n"
      "%b: float32[2, 6, 5, 5] = aten.conv2d.default(%x, %v, None, padding=[1, 1])\n";
  for (const char* rest : {"%y: float32[2, 13, 5, 5] = aten.cat.default([%a, %b], dim=1)\n",
                           "%y: float32[2, 3, 5, 5] = aten.slice.Tensor(%a, dim=1, start=2, end=5)\n",
                           "%y: float32[2, 7] = aten.mean.dim(%a, dim=[2, 3])\n",
                           "%y: float32[2, 1, 5, 5] = aten.mean.dim(%a, dim=[1], keepdim=true)\n",
                           "%y: float32[2, 175] = aten.view.default(%a, size=[2, 175])\n",
                           "%y: float32[5, 7, 2, 5] = aten.permute.default(%a, dims=[2, 1, 0, 3])\n",
                           "%m: float32[2, 1, 1, 1] = aten.mean.dim(%a, dim=[1, 2, 3], keepdim=true)\n"
                           "%e: float32[2, 6, 5, 5] = aten.expand.default(%m, size=[2, 6, 5, 5])\n"
                           "%y: float32[2, 6, 5, 5] = aten.add.Tensor(%e, %b)\n",
                           "%y: float32[2, 7, 2, 2] = aten.max_pool2d.default(%a, kernel_size=[2, 2])\n"})
    for (const DType dtype : {DType::f32, DType::f16})
      run_graph(start + rest + "output %y\n", {.dtype = dtype, .tolerance = dtype == DType::f32 ? 2e-6 : 4e-3});
}

// Stores in index order are one by one: what they store is no row that each would fold where it is stored.
TEST(Fuse, RowsStayOutOfStoresInOrder) {
  const auto folds_in_order = [](const GraphRun& run) {
    return std::any_of(run.program->kernels.begin(), run.program->kernels.end(),
                       [](const Kernel& k) { return k.row_dims > 0 && order_matters(k); });
  };
  EXPECT_FALSE(
      folds_in_order(run_graph("input %x: float32[1, 3, 8, 8]\ninput %z: float32[1, 3, 64]\n"
                               "%p: float32[1, 3, 4, 4], %i: int64[1, 3, 4, 4] = "
                               "aten.max_pool2d_with_indices.default(%x, kernel_size=[2, 2], stride=[2, 2])\n"
                               "%v: float32[1, 3, 16] = aten.flatten.using_ints(%p, start_dim=2)\n"
                               "%j: int64[1, 3, 16] = aten.flatten.using_ints(%i, start_dim=2)\n"
                               "%y: float32[1, 3, 64] = aten.scatter.src(%z, %j, %v, dim=2)\noutput %y\n")));
  EXPECT_FALSE(folds_in_order(
      run_graph("input %x: float32[12, 40]\nconstant %j: int64[12] = [0, 3, 1, 1, 2, 0, 3, 3, 2, 1, 0, 2]\n"
                "%s: float32[12] = aten.sum.dim_IntList(%x, dim=[1])\ninput %z: float32[4]\n"
                "%y: float32[4] = aten.scatter_add.default(%z, %j, %s, dim=0)\noutput %y\n")));
}

}  // namespace
}  // namespace npusim
