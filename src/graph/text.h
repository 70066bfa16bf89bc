// A graph as text, for dumps and pass tests: prints and parses back to the same graph.
//
//   graph "resnet"
//   input %x: float32[1, 3, 8, 8]
//   weight %p_conv_weight: float32[4, 3, 3, 3] = "conv.weight"
//   constant %c: float32[2] = [0.5, 1]
//   %conv2d: float32[1, 4, 6, 6] = aten.conv2d.default(%x, %p_conv_weight, None, stride=[1, 1], …)
//   %relu_: float32[1, 4, 6, 6] = aten.relu_.default(%conv2d)
//   %split_0: float32[1, 2, 6, 6], %split_1: … = aten.split.Tensor(%relu_, split_size=2, dim=1) @split
//   output %split_1
//   output "logits" = %split_0
//
// Operands stand in schema order: a value, None, or a number in a tensor's place; lists in brackets. Attributes follow
// by name; those that are None are left out where None is the default. "@name" is the node's name where it is not its
// first result's, "output "name"" a graph output called otherwise than its value. Names that are not identifiers are
// quoted. Constants are listed, or hexadecimal bytes ("hex 0001…") beyond 16 elements or with NaNs.
// A kernel node is `%y: float32[4] = kernel relu(%x)` and the kernel's own text, indented; that is for reading only.
#pragma once
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace npusim {

std::string to_text(const Graph& graph);
// Throws bad_input naming line and expectation, and for kernel nodes. Attributes left out have their defaults. What it
// returns passes check_graph().
Graph parse_graph(std::string_view text);

}  // namespace npusim
