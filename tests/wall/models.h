// Small models as IR text.
#pragma once
#include <string>

namespace npusim::test {

// y = x + w
inline const std::string add_ir = R"({
  "graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32"}],
  "graph_outputs": [{"name": "y", "shape": [2, 3], "dtype": "float32"}],
  "weights": [{"name": "w", "shape": [3], "dtype": "float32"}],
  "nodes": [
    {"name": "y", "op_type": "aten.add.Tensor", "attrs": {},
     "inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0},
                {"name": "w", "shape": [3], "dtype": "float32"}],
     "outputs": [{"name": "y", "shape": [2, 3], "dtype": "float32"}]}]})";

// Two operators that there are not.
inline const std::string unknown_ir = R"({
  "graph_inputs": [{"name": "x", "shape": [2], "dtype": "float32"}],
  "graph_outputs": [{"name": "b", "shape": [2], "dtype": "float32"}],
  "weights": [],
  "nodes": [
    {"name": "a", "op_type": "aten.unheard.default", "attrs": {},
     "inputs": [{"name": "x", "shape": [2], "dtype": "float32", "producer_node": "x", "producer_output_idx": 0}],
     "outputs": [{"name": "a", "shape": [2], "dtype": "float32"}]},
    {"name": "b", "op_type": "aten.unseen.default", "attrs": {},
     "inputs": [{"name": "a", "shape": [2], "dtype": "float32", "producer_node": "a", "producer_output_idx": 0}],
     "outputs": [{"name": "b", "shape": [2], "dtype": "float32"}]}]})";

}  // namespace npusim::test
