// Graphs as text: what is printed is parsed back.
#include "graph/text.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace npusim {
namespace {

void round_trip(const std::string& text) {
  const Graph graph = parse_graph(text);
  EXPECT_EQ(check_graph(graph), std::vector<std::string>{});
  EXPECT_EQ(to_text(graph), text);
}

std::string refusal(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "parsed";
  return {};
}

TEST(Text, RoundTrip) {
  round_trip(
      "graph \"a \\\"name\\\"\\x0a\"\n"
      "input %x: float32[2, 3]\n"
      "input %\"odd name\": float32[3]\n"
      "weight %p_w: float32[4, 3] = \"fc.weight\"\n"
      "%h: float32[2, 3] = aten.add.Tensor(%x, %\"odd name\", alpha=0.5)\n"
      "%l: float32[2, 4] = aten.linear.default(%h, %p_w, None) @fc\n"
      "%m: float32[2, 4] = aten.mul.Tensor(%l, 1.0)\n"
      "%n: float32[2, 4] = aten.mul.Tensor(-3, %m)\n"
      "%r: float32[2, 4] = aten.relu_.default(%n)\n"
      "%t: float32[4, 2] = aten.transpose.int(%r, dim0=0, dim1=-1)\n"
      "output %t\n"
      "output \"again\" = %t\n"
      "output %x\n");
}

TEST(Text, ConstantsKeepTheirBits) {
  round_trip(
      "graph \"g\"\n"
      "constant %i: int64[2] = [9223372036854775807, -1]\n"
      "constant %b: bool[3] = [1, 0, 1]\n"
      "constant %s: float32[] = [0.1] as \"scale\"\n"
      "constant %z: float64[3] = [-0, inf, 1e-300]\n"
      "constant %h: bfloat16[2] = [1.0078125, -inf]\n"
      "constant %e: float32[0, 3] = []\n"
      "constant %n: float32[2] = hex 0000c07f0000803f\n"
      "constant %l: uint8[17] = hex 000102030405060708090a0b0c0d0e0f10\n"
      "output %i\noutput %b\noutput %s\noutput %z\noutput %h\noutput %e\noutput %n\noutput %l\n");
}

TEST(Text, TuplesListsAndAttributes) {
  round_trip(
      "graph \"g\"\n"
      "input %x: float32[4, 6]\n"
      "input %i: int64[2]\n"
      "%s_0: float32[4, 3], %s_1: float32[4, 3] = aten.split.Tensor(%x, split_size=3, dim=1) @s\n"
      "%c: float32[8, 3] = aten.cat.default([%s_0, %s_1], dim=0)\n"
      "%g: float32[8, 2] = aten.index.Tensor(%c, [None, %i])\n"
      "%m: float32[1, 2] = aten.mean.dim(%g, dim=[0], keepdim=true)\n"
      "%h: float16[1, 2] = aten.to.dtype(%m, dtype=float16, non_blocking=false, copy=false)\n"
      "output %h\n");
}

// Attributes left out have their defaults.
TEST(Text, Defaults) {
  const Graph graph =
      parse_graph("graph \"g\"\ninput %x: float32[2]\n%y: float32[2] = aten.add.Tensor(%x, %x)\noutput %y\n");
  EXPECT_EQ(to_string(graph.nodes[0].attrs[2]), "1");
}

TEST(Text, Errors) {
  const std::string start = "graph \"g\"\ninput %x: float32[2]\n";
  EXPECT_EQ(refusal(""), "graph text, line 0, column 1: expected a graph, found the end of the line");
  EXPECT_EQ(refusal("graph g\n"), "graph text, line 1, column 7: expected '\"', found 'g'");
  EXPECT_EQ(refusal("input %x: float33[2]\n"), "graph text, line 1, column 10: expected a dtype, found ' float33[2]'");
  EXPECT_EQ(refusal("input %x: float32[-2]\n"), "graph text, line 1, column 21: expected an extent, found ']'");
  EXPECT_EQ(refusal(start + "%y: float32[2] = aten.relu.default(%z)\n"),
            "graph text, line 3, column 38: expected a value defined above, 'z' is not,, found ')'");
  EXPECT_EQ(refusal(start + "%x: float32[2] = aten.relu.default(%x)\n"),
            "graph text, line 3, column 39: expected a new name, 'x' is taken,, found the end of the line");
  EXPECT_EQ(refusal(start + "%y: float32[2] = aten.nothing.default(%x)\n"),
            "graph text, line 3, column 18: expected a line's keyword or a known op, found 'aten.nothing.default(%x)'");
  EXPECT_EQ(refusal(start + "%y: float32[2] = kernel relu(%x)\n"),
            "graph text, line 3: kernels are printed, not parsed");
  EXPECT_EQ(refusal(start + "%y: float32[3] = aten.relu.default(%x)\n"),
            "graph text: node 'y': declares result 0 as float32[3], expected float32[2]");
  EXPECT_EQ(refusal("constant %c: float32[1000000000] = [1]\n"),
            "graph text, line 1, column 36: expected 1000000000 elements, found '[1]'");
}

}  // namespace
}  // namespace npusim
