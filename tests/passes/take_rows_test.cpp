// A row that is taken out of a value: what only this row asks for is computed of it alone, and all else as it was.
#include <fmt/format.h>

#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;

// Multiplications and additions of all steps' spaces, reduced dimensions of contractions with them.
int64_t work(const GraphRun& run) {
  int64_t points = 0;
  for (const Step& step : run.method().steps) {
    const Kernel& kernel = run.program->kernels[static_cast<size_t>(step.kernel)];
    points += element_count(kernel.space) * (kernel.contraction ? element_count(kernel.contraction->reduce) : 1);
  }
  return points;
}

int64_t work_without(const std::string& text, RunOptions options = {}) {
  options.disabled = {"take_rows"};
  return work(run_graph(text, options));
}

// A layer as language models have it: a norm, a product with a residual, and of its last token a product more.
std::string layer(const std::string& taken) {
  return "input %x: float32[1, 6, 8]\nweight %a: float32[8, 8] = \"a\"\nweight %h: float32[8, 8] = \"h\"\n"
         "%p: float32[1, 6, 8] = aten.pow.Tensor_Scalar(%x, exponent=2.0)\n"
         "%m: float32[1, 6, 1] = aten.mean.dim(%p, dim=[-1], keepdim=true)\n"
         "%r: float32[1, 6, 1] = aten.rsqrt.default(%m)\n"
         "%n: float32[1, 6, 8] = aten.mul.Tensor(%x, %r)\n"
         "%l: float32[1, 6, 8] = aten.linear.default(%n, %a, None)\n"
         "%s: float32[1, 6, 8] = aten.add.Tensor(%x, %l)\n" +
         taken;
}
const std::string last =
    "%t: float32[1, 1, 8] = aten.slice.Tensor(%s, dim=1, start=5, end=6, step=1)\n"
    "%y: float32[1, 1, 8] = aten.linear.default(%t, %h, None)\noutput %y\n";

TEST(TakeRows, WhatOneTokenAsksFor) {
  for (const bool strict : {false, true})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      RunOptions options;
      options.strict = strict, options.dtype = dtype;
      if (dtype != DType::f32) options.tolerance = 2e-2;  // several values are stored narrow on the way
      const GraphRun run = run_graph(layer(last), options);
      EXPECT_LT(work(run), work_without(layer(last), options) / 2);
      for (const Step& step : run.method().steps)
        for (const int64_t extent : run.program->kernels[static_cast<size_t>(step.kernel)].space)
          EXPECT_NE(extent, 6) << to_text(run.program->kernels[static_cast<size_t>(step.kernel)]);
    }
}

// By an index that goes away, of the first row, and of one counted from the end.
TEST(TakeRows, Selected) {
  for (const int index : {0, 3, -1}) {
    const std::string text =
        layer(fmt::format("%t: float32[1, 8] = aten.select.int(%s, dim=1, index={})\n"
                          "%y: float32[1, 8] = aten.linear.default(%t, %h, None)\noutput %y\n",
                          index));
    EXPECT_LT(work(run_graph(text)), work_without(text) / 2) << index;
  }
}

// Others ask for more than the row, or for another one: nothing changes.
TEST(TakeRows, ValuesThatOthersRead) {
  for (const char* more : {"output %s\n", "%z: float32[1, 6, 8] = aten.exp.default(%s)\noutput %z\n",
                           "%z: float32[1, 1, 8] = aten.slice.Tensor(%s, dim=1, start=2, end=3, step=1)\noutput %z\n"})
    EXPECT_EQ(work(run_graph(layer(last + more))), work_without(layer(last + more))) << more;
  const std::string two =
      layer("%t: float32[1, 2, 8] = aten.slice.Tensor(%s, dim=1, start=4, end=6, step=1)\noutput %t\n");
  EXPECT_EQ(work(run_graph(two)), work_without(two));
}

// Part of what a row is made of is asked for as a whole: it is computed once, and the row taken out of it.
TEST(TakeRows, WhatIsReadInTheMiddle) {
  const std::string text = layer(last + "%z: float32[1, 6, 8] = aten.exp.default(%l)\noutput %z\noutput %n\n");
  EXPECT_LE(work(run_graph(text)), work_without(text));
}

// Queries of one token, keys and values of all; the mask says which row it is.
TEST(TakeRows, Attention) {
  const std::string text =
      "input %x: float32[2, 5, 8]\nweight %q: float32[8, 8] = \"q\"\nweight %k: float32[8, 8] = \"k\"\n"
      "%a: float32[2, 5, 8] = aten.linear.default(%x, %q, None)\n"
      "%b: float32[2, 5, 8] = aten.linear.default(%x, %k, None)\n"
      "%c: float32[2, 8, 5] = aten.transpose.int(%b, dim0=1, dim1=2)\n"
      "%s: float32[2, 5, 5] = aten.matmul.default(%a, %c)\n"
      "%o: float32[5, 5] = aten.ones.default(size=[5, 5])\n"
      "%m: float32[5, 5] = aten.tril.default(%o)\n"
      "%g: float32[5, 5] = aten.log.default(%m)\n"
      "%d: float32[2, 5, 5] = aten.add.Tensor(%s, %g)\n"
      "%w: float32[2, 5, 5] = aten.softmax.int(%d, dim=-1)\n"
      "%v: float32[2, 5, 8] = aten.matmul.default(%w, %b)\n"
      "%y: float32[2, 8] = aten.select.int(%v, dim=1, index=2)\noutput %y\noutput %b\n";
  for (const bool strict : {false, true}) {
    RunOptions options;
    options.strict = strict;
    EXPECT_LT(work(run_graph(text, options)), work_without(text, options));
  }
}

// A column is a row of another order; a row of an input, of what has no rows, and of a single row.
TEST(TakeRows, OtherRows) {
  const std::string start = "input %x: float32[4, 6]\n";
  const std::string column = start +
                             "%e: float32[4, 6] = aten.exp.default(%x)\n"
                             "%y: float32[4] = aten.select.int(%e, dim=1, index=4)\noutput %y\n";
  EXPECT_EQ(work(run_graph(column)), 4);
  run_graph(start + "%y: float32[6] = aten.select.int(%x, dim=0, index=2)\noutput %y\n");
  run_graph(start +
            "%c: float32[4, 6] = aten.cumsum.default(%x, dim=0)\n"
            "%y: float32[6] = aten.select.int(%c, dim=0, index=2)\noutput %y\n");
  run_graph(start +
            "%f: float32[4, 6] = aten.flip.default(%x, dims=[0])\n"
            "%e: float32[4, 6] = aten.exp.default(%f)\n"
            "%y: float32[6] = aten.select.int(%e, dim=0, index=1)\noutput %y\n");
  run_graph(
      "input %x: float32[1, 6]\n%e: float32[1, 6] = aten.exp.default(%x)\n"
      "%y: float32[6] = aten.select.int(%e, dim=0, index=0)\noutput %y\n");
}

// Many rows: one walk finds them all.
TEST(TakeRows, OneBehindTheOther) {
  std::string text = "input %x: float32[3, 4]\nweight %w: float32[4, 4] = \"w\"\n", last = "x";
  for (int n = 0; n < 20; ++n) {
    text += fmt::format(
        "%e{0}: float32[3, 4] = aten.linear.default(%{1}, %w, None)\n%s{0}: float32[4] = aten.select.int(%e{0}, dim=0, "
        "index={2})\n"
        "%p{0}: float32[3, 4] = aten.expand.default(%s{0}, size=[3, 4])\n",
        n, last, n % 3);
    last = fmt::format("p{}", n);
  }
  text += fmt::format("%y: float32[3, 4] = aten.neg.default(%{})\noutput %y\n", last);
  EXPECT_LT(work(run_graph(text)), work_without(text) / 2);
}

// One row of one row.
TEST(TakeRows, Twice) {
  const std::string text =
      "input %x: float32[3, 4, 5]\n%e: float32[3, 4, 5] = aten.exp.default(%x)\n"
      "%a: float32[4, 5] = aten.select.int(%e, dim=0, index=1)\n%s: float32[4, 5] = aten.sin.default(%a)\n"
      "%y: float32[5] = aten.select.int(%s, dim=0, index=3)\noutput %y\n";
  EXPECT_EQ(work(run_graph(text)), 5);
}

}  // namespace
}  // namespace npusim
