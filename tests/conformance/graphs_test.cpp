// Whole programs on every device, alone and shared between two, held to the reference.
#include <gtest/gtest.h>

#include "conformance/devices.h"
#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::device_cases;
using test::DeviceCase;
using test::run_graph;
using test::RunOptions;

class Graphs : public testing::TestWithParam<DeviceCase> {
 protected:
  RunOptions options() const {
    RunOptions options;
    options.target = GetParam().target;
    options.place = GetParam().place;
    options.devices = GetParam().open();
    return options;
  }
};

const char* const chain =
    "input %x: float32[5, 48]\nweight %w: float32[48, 48] = \"w\"\n"
    "%a: float32[5, 48] = aten.tanh.default(%x)\n"
    "%b: float32[5, 48] = aten.matmul.default(%a, %w)\n"
    "%c: float32[5, 48] = aten.softmax.int(%b, dim=1)\n"
    "%d: float32[5, 48] = aten.cumsum.default(%c, dim=1)\n"
    "%e: float32[5, 48] = aten.mul.Tensor(%d, %a)\n"
    "%y: float32[5, 48] = aten.matmul.default(%e, %w)\noutput %y\noutput %c\noutput %x\n";

TEST_P(Graphs, Chain) { run_graph(chain, options()); }

TEST_P(Graphs, ChainUnfused) {
  RunOptions unfused = options();
  unfused.disabled = {"all"};
  run_graph(chain, unfused);
}

TEST_P(Graphs, SixteenBits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    RunOptions narrow = options();
    narrow.dtype = dtype;
    narrow.tolerance = 0.02;
    run_graph(chain, narrow);
  }
}

// Channels are padded and stored last: nothing may read what lies between.
TEST_P(Graphs, ImagesWithPaddedChannels) {
  RunOptions padded = options();
  padded.configure = [](TargetConfig& config) {
    config.channel_alignment_bytes = 64;
    config.pad_channels = true;
    config.channel_tile = 0;
  };
  const std::string text =
      "input %x: float32[2, 3, 9, 9]\n"
      "weight %w: float32[5, 3, 3, 3] = \"w\"\nweight %b: float32[5] = \"b\"\n"
      "weight %v: float32[7, 5, 3, 3] = \"v\"\n"
      "%c: float32[2, 5, 9, 9] = aten.conv2d.default(%x, %w, %b, stride=[1, 1], padding=[1, 1])\n"
      "%r: float32[2, 5, 9, 9] = aten.relu.default(%c)\n"
      "%d: float32[2, 7, 5, 5] = aten.conv2d.default(%r, %v, None, stride=[2, 2], padding=[1, 1])\n"
      "%p: float32[2, 7, 2, 2] = aten.max_pool2d.default(%d, kernel_size=[2, 2])\n"
      "%m: float32[2, 7, 1, 1] = aten.mean.dim(%p, dim=[2, 3], keepdim=true)\noutput %m\noutput %r\n";
  run_graph(text, padded);
  padded.disabled = {"all"};
  run_graph(text, padded);
}

TEST_P(Graphs, ViewsEmptiesAndConstants) {
  run_graph(
      "input %x: float32[4, 6]\ninput %e: float32[0, 3]\n"
      "%t: float32[6, 4] = aten.transpose.int(%x, dim0=0, dim1=1)\n"
      "%f: float32[24] = aten.reshape.default(%t, shape=[24])\n"
      "%s: float32[12] = aten.slice.Tensor(%f, dim=0, start=3, end=15)\n"
      "%o: float32[12] = aten.full.default(size=[12], fill_value=3.0)\n"
      "%y: float32[12] = aten.add.Tensor(%s, %o)\n"
      "%n: float32[0, 3] = aten.neg.default(%e)\n"
      "%z: float32[3] = aten.sum.dim_IntList(%e, dim=[0])\noutput %y\noutput %n\noutput %z\noutput %o\noutput %t\n",
      options());
}

TEST_P(Graphs, WritesInPlace) {
  run_graph(
      "input %x: float32[4, 6]\ninput %y: float32[2, 6]\n"
      "%a: float32[4, 6] = aten.exp.default(%x)\n"
      "%v: float32[2, 6] = aten.slice.Tensor(%a, dim=0, start=1, end=3)\n"
      "%w: float32[2, 6] = aten.add_.Tensor(%v, %y)\n"
      "%z: float32[4, 6] = aten.sigmoid.default(%a)\noutput %z\noutput %w\noutput %a\n",
      options());
}

// Rows are ordered, by a device's own sort or by merges, and places are combined with; the order reaches two outputs.
TEST_P(Graphs, OrdersAndCombines) {
  run_graph(
      "input %x: float32[3, 90]\ninput %s: float32[7, 3]\n"
      "%n: float32[3, 90] = aten.neg.default(%x)\n"
      "%t: float32[90, 3] = aten.transpose.int(%n, dim0=0, dim1=1)\n"
      "%v: float32[90, 3], %i: int64[90, 3] = aten.sort.stable(%t, stable=true, dim=0, descending=true)\n"
      "%k: float32[3, 5], %p: int64[3, 5] = aten.topk.default(%n, k=5, dim=1)\n"
      "%m: float32[] = aten.median.default(%x)\n"
      "%b: int64[90, 3] = aten.remainder.Scalar(%i, other=7)\n"
      "%l: float32[7, 3] = aten.scatter_reduce.two(%s, %b, %v, dim=0, reduce=\"amax\", include_self=false)\n"
      "%q: float32[7, 3] = aten.scatter_reduce.two(%s, %b, %t, dim=0, reduce=\"mean\")\n"
      "output %v\noutput %i\noutput %k\noutput %p\noutput %m\noutput %l\noutput %q\n",
      options());
}

TEST_P(Graphs, Attention) {
  run_graph(
      "input %q: float32[1, 2, 5, 16]\ninput %k: float32[1, 2, 7, 16]\ninput %v: float32[1, 2, 7, 16]\n"
      "%y: float32[1, 2, 5, 16] = aten.scaled_dot_product_attention.default(%q, %k, %v, None)\n"
      "%z: float32[1, 2, 5, 16] = aten.silu.default(%y)\noutput %z\n",
      options());
}

INSTANTIATE_TEST_SUITE_P(Devices, Graphs, testing::ValuesIn(device_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace npusim
