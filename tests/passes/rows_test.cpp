// What joins a kernel keeps its rows and the types of what it loads.
#include <fmt/format.h>

#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::run_graph;

const std::string convolution =
    "input %x: float32[1, 3, 6, 6]\nweight %w: float32[4, 3, 3, 3] = \"w\"\n"
    "%b: float32[1, 4, 4, 4] = aten.conv2d.default(%x, %w, None)\n";

// A scan runs along one dimension, however the image it reads is stored.
TEST(Rows, AScanOfAConvolution) {
  run_graph(convolution +
            "%f: float32[64] = aten.flatten.using_ints(%b)\n%y: float32[64] = aten.cumsum.default(%f, dim=0)\n"
            "output %y\n");
  run_graph(convolution +
            "input %m: bool[1, 4, 4, 4]\ninput %s: float32[64]\n"
            "%y: float32[1, 4, 4, 4] = aten.masked_scatter.default(%b, %m, %s)\noutput %y\n");
}

// Results without elements, for which a record has no kernel, as graph outputs and read.
TEST(Empty, ResultsAreComputedAllTheSame) {
  run_graph(
      "input %x: float32[2, 3, 4]\nweight %m: float32[3] = \"m\"\nweight %v: float32[3] = \"var\"\n"
      "%y: float32[2, 3, 4], %s: float32[0], %t: float32[0] = "
      "aten._native_batch_norm_legit_no_training.default(%x, None, None, %m, %v, momentum=0.1, eps=0.001)\n"
      "%e: float32[0] = aten.exp.default(%t)\noutput %y\noutput %s\noutput %e\n");
  run_graph(
      "weight %w: float32[1, 0, 1, 1] = \"w\"\n"
      "%y: float32[1, 0, 2, 3] = aten.adaptive_avg_pool2d.default(%w, output_size=[2, 3])\noutput %y\n");
  run_graph(
      "input %x: float32[0, 2, 4, 4]\n%y: float32[0, 2, 2, 3], %i: int64[0, 2, 2, 3] = "
      "aten.adaptive_max_pool2d.default(%x, output_size=[2, 3])\noutput %y\noutput %i\n");
}

// --dtype float32 stores results wide, weights as they are: what updates one is no weight any more.
TEST(Widened, UpdatesOf16BitWeightsAndConstants) {
  for (const char* dtype : {"float16", "bfloat16"}) {
    run_graph(
        fmt::format("weight %w: {0}[31] = \"w\"\nweight %v: {0}[16] = \"v\"\n"
                    "%y: {0}[31] = aten.slice_scatter.default(%w, %v, dim=0, start=15, end=31, step=1)\n"
                    "output %y\n",
                    dtype));
    run_graph(
        fmt::format("weight %w: {0}[4, 8] = \"w\"\ninput %x: {0}[8]\n%c: {0}[4, 8] = aten.exp.default(%w)\n"
                    "%r: {0}[8] = aten.select.int(%w, dim=0, index=1)\n%d: {0}[8] = aten.copy_.default(%r, %x)\n"
                    "output %w\noutput %c\n",
                    dtype));
  }
}

// Products and convolutions scaled by what no float is.
TEST(Loads, AScaleOfIntegersAndBooleans) {
  for (const char* dtype : {"int64", "int32", "bool", "uint8", "float32", "float16"}) {
    run_graph(
        fmt::format("input %x: float32[5, 8]\nweight %w: float32[8, 4] = \"w\"\nweight %s: {}[4] = \"s\"\n"
                    "%b: float32[5, 4] = aten.mm.default(%x, %w)\n%y: float32[5, 4] = aten.mul.Tensor(%b, %s)\n"
                    "output %y\n",
                    dtype));
    run_graph(convolution + fmt::format("weight %s: {}[4, 1, 1] = \"s\"\n"
                                        "%c: float32[1, 4, 4, 4] = aten.mul.Tensor(%b, %s)\n"
                                        "%y: float32[1, 4, 4, 4] = aten.add.Tensor(%c, %s)\noutput %y\n",
                                        dtype));
  }
}

}  // namespace
}  // namespace npusim
