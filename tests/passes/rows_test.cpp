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
