// Building, rewriting, compacting and verifying graphs.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/text.h"
#include "ops/op.h"

namespace npusim {
namespace {

using Problems = std::vector<std::string>;

const TensorType pair{DType::f32, {2}};

ValueId add_input(Graph& graph, std::string name, TensorType type = pair) {
  const ValueId id = add_value(graph, std::move(name), std::move(type));
  value_of(graph, id).source = ValueSource::input;
  graph.inputs.push_back(id);
  return id;
}

ValueId add_relu(Graph& graph, std::string name, ValueId input) {
  Node node;
  node.name = name;
  node.op = find_op("aten.relu.default");
  node.attrs.resize(node.op->schema.args.size());
  node.inputs = {input};
  node.outputs = {add_value(graph, std::move(name), value_of(graph, input).type)};
  const ValueId output = node.outputs[0];
  add_node(graph, std::move(node));
  return output;
}

TEST(Graph, NamesAreUnique) {
  Graph graph;
  auto name = [&](std::string wanted) { return value_of(graph, add_value(graph, wanted, pair)).name; };
  EXPECT_EQ(name("a"), "a");
  EXPECT_EQ(name("a_1"), "a_1");
  EXPECT_EQ(name("a"), "a_2");
  EXPECT_EQ(name("a"), "a_3");
  EXPECT_EQ(name("a_1"), "a_1_1");
}

TEST(Graph, ReadersCountOnceAndOutputsLast) {
  Graph graph = parse_graph(
      "graph \"g\"\n"
      "input %x: float32[2]\n"
      "%a: float32[2] = aten.mul.Tensor(%x, %x)\n"
      "%b: float32[2] = aten.mul.Tensor(%x, %a)\n"
      "output %a\noutput %a\noutput %b\n");
  const auto readers = readers_of(graph);
  EXPECT_EQ(readers[0], (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(readers[1], (std::vector<int32_t>{1, -1}));
  EXPECT_EQ(readers[2], (std::vector<int32_t>{-1}));
}

TEST(Graph, ReplaceFollowsChains) {
  Graph graph;
  const ValueId x = add_input(graph, "x");
  const ValueId a = add_relu(graph, "a", x), b = add_relu(graph, "b", a), c = add_relu(graph, "c", b);
  graph.outputs = {{"c", c}};
  std::vector<ValueId> to{x, x, a, c};
  replace_values(graph, to);
  EXPECT_EQ(graph.nodes[2].inputs[0], x);
  EXPECT_EQ(graph.outputs[0].value, c);
  to = {a, x, b, c};
  EXPECT_THROW(replace_values(graph, to), Error);
}

TEST(Graph, CompactDropsWhatReachesNoOutput) {
  Graph graph;
  const ValueId x = add_input(graph, "x");
  add_input(graph, "unused");
  const ValueId a = add_relu(graph, "a", x);
  add_relu(graph, "dead", a);
  const ValueId b = add_relu(graph, "b", a);
  graph.outputs = {{"b", b}};
  compact(graph, {}, true);
  EXPECT_EQ(check_graph(graph), Problems{});
  EXPECT_EQ(to_text(graph),
            "graph \"\"\n"
            "input %x: float32[2]\n"
            "input %unused: float32[2]\n"
            "%a: float32[2] = aten.relu.default(%x)\n"
            "%b: float32[2] = aten.relu.default(%a)\n"
            "output %b\n");
}

TEST(Graph, CompactKeepsWritesToOperands) {
  Graph graph;
  const ValueId x = add_input(graph, "x");
  const ValueId a = add_relu(graph, "a", x);
  add_relu(graph, "write", a);
  graph.nodes[1].in_place = true;
  graph.outputs = {{"a", a}};
  compact(graph, {}, true);
  EXPECT_EQ(graph.nodes.size(), 2u);
}

TEST(Graph, CompactRestoresOrder) {
  Graph graph;
  const ValueId x = add_input(graph, "x");
  const ValueId a = add_relu(graph, "a", x), b = add_relu(graph, "b", a), c = add_relu(graph, "c", x);
  const ValueId late = add_relu(graph, "late", x);
  graph.nodes[1].inputs[0] = late;  // b now reads what was appended last; a is dead
  graph.outputs = {{"b", b}, {"c", c}};
  EXPECT_FALSE(check_graph(graph).empty());
  compact(graph, {true}, false);
  EXPECT_EQ(check_graph(graph), Problems{});
  EXPECT_EQ(graph.nodes[0].name, "late");
  EXPECT_EQ(graph.nodes[1].name, "b");
  EXPECT_EQ(graph.nodes[2].name, "c");
  EXPECT_EQ(graph.values.size(), 4u);
  EXPECT_EQ(value_of(graph, graph.nodes[1].inputs[0]).producer, 0);
}

TEST(Graph, CompactRefusesCycles) {
  Graph graph;
  const ValueId x = add_input(graph, "x");
  const ValueId a = add_relu(graph, "a", x), b = add_relu(graph, "b", a);
  graph.nodes[0].inputs[0] = b;
  graph.outputs = {{"b", b}};
  EXPECT_THROW(compact(graph, {}, false), Error);
}

// All of it is linear: a chain as long as the longest models'.
TEST(Graph, LongChains) {
  Graph graph;
  ValueId value = add_input(graph, "x");
  std::vector<ValueId> to{value};
  for (int i = 0; i < 200000; ++i) to.push_back(value = add_relu(graph, "relu", value));
  graph.outputs = {{"y", value}};
  std::reverse(graph.nodes.begin(), graph.nodes.end());
  compact(graph, {}, true);
  EXPECT_EQ(check_graph(graph), Problems{});
  EXPECT_EQ(graph.nodes.size(), 200000u);
  for (size_t i = to.size(); i-- > 1;) to[i] = static_cast<ValueId>(i) - 1;
  replace_values(graph, to);
  compact(graph, {}, true);
  EXPECT_EQ(graph.nodes.size(), 0u);
}

// One relu, ready to be broken.
Graph sound() {
  Graph graph;
  graph.outputs = {{"a", add_relu(graph, "a", add_input(graph, "x"))}};
  return graph;
}

TEST(Check, Values) {
  Graph graph = sound();
  EXPECT_EQ(check_graph(graph), Problems{});
  graph.values[0].name = "a";
  EXPECT_EQ(check_graph(graph), Problems{"value 'a': the name is not unique"});
  graph = sound();
  graph.values[0].source = ValueSource::weight;
  EXPECT_EQ(check_graph(graph), (Problems{"weight 'x': has no FQN", "graph input 'x': is no input"}));
  graph = sound();
  graph.values[0].source = ValueSource::constant;
  graph.inputs.clear();
  EXPECT_EQ(check_graph(graph), Problems{"constant 'x': has no data"});
  graph = sound();
  graph.values[0].type.shape = {-1};
  EXPECT_EQ(check_graph(graph), Problems{"value 'x': negative dimension in shape [-1]"});
}

TEST(Check, Edges) {
  Graph graph = sound();
  graph.nodes[0].inputs[0] = 7;
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': input 7 is no value"});
  graph = sound();
  graph.nodes[0].inputs[0] = 1;
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': reads 'a' before it is computed"});
  graph = sound();
  graph.values[1].producer = 3;
  EXPECT_EQ(check_graph(graph), Problems{"value 'a': its producer is 3, but node 0 computes it"});
  graph = sound();
  graph.nodes.clear();
  EXPECT_EQ(check_graph(graph), Problems{"value 'a': no node computes it"});
  graph = sound();
  graph.outputs[0].value = no_value;
  EXPECT_EQ(check_graph(graph), Problems{"graph output 'a': -1 is no value"});
}

TEST(Check, Calls) {
  Graph graph = sound();
  graph.nodes[0].inputs[0] = no_value;
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': argument 'self' must be a tensor, found None"});
  graph = sound();
  graph.nodes[0].attrs.clear();
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': has 0 attributes, expected 1"});
  graph = sound();
  graph.values[1].type.shape = {3};
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': declares result 0 as float32[3], expected float32[2]"});
  graph = sound();
  graph.nodes[0].op = nullptr;
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': must be either an op or a kernel"});
}

TEST(Check, Kernels) {
  Graph graph = sound();
  Node& node = graph.nodes[0];
  Lowering lowering = lower_call(call_of(graph, node));
  node.kernel = std::make_shared<const Kernel>(lowering.calls[0].kernel);
  node.op = nullptr;
  EXPECT_EQ(check_graph(graph), Problems{});
  EXPECT_NE(to_text(graph).find("%a: float32[2] = kernel relu(%x)\n  space [2] row 0\n"), std::string::npos);
  graph.values[0].type.shape = {3};
  EXPECT_EQ(check_graph(graph), Problems{"node 'a': kernel relu takes 'x' as float32 x2, it is float32[3]"});
}

}  // namespace
}  // namespace npusim
