// What import says of files that are wrong: every problem, each in one line with place, expectation and finding.
#include "graph/import.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/ir.h"

namespace npusim {
namespace {

using test::Ir;
using test::node;
using test::read;
using test::tensor;

std::string message(const std::string& json, ErrorKind kind = ErrorKind::bad_input, int max_problems = 50) {
  try {
    import_ir(json, "ir.json", {max_problems});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "imported";
  return {};
}

// x -> relu -> y, of float32[2].
Ir good() {
  Ir ir;
  ir.inputs = {tensor("x", "[2]")};
  ir.outputs = {tensor("y", "[2]")};
  ir.nodes = {node("y", "aten.relu.default", {read("x", "[2]")}, {tensor("y", "[2]")})};
  return ir;
}

TEST(ImportErrors, NotJson) {
  const auto starts = [](const std::string& text, const std::string& start) {  // the rest is the JSON library's
    EXPECT_EQ(text.substr(0, start.size()), start);
    EXPECT_GT(text.size(), start.size());
  };
  starts(message("{\n \"nodes\": [,]}"), "ir.json: not JSON: parse error at line 2, column 12: ");
  starts(message(""), "ir.json: not JSON: parse error at line 1, column 1: ");
  EXPECT_EQ(message("[1]"), "ir.json: expected a JSON object with nodes, found array");
  EXPECT_EQ(message(std::string(200, '[')), "ir.json: nested deeper than 100 levels");
  EXPECT_EQ(message("{\"a\": 1e999}"), "ir.json: not JSON: number overflow parsing '1e999'");
}

TEST(ImportErrors, MissingKeys) {
  EXPECT_EQ(message("{}"),
            "ir.json: graph_inputs: missing\n"
            "ir.json: graph_outputs: missing\n"
            "ir.json: weights: missing\n"
            "ir.json: nodes: missing");
}

TEST(ImportErrors, WrongKeys) {
  Ir ir = good();
  ir.inputs = {R"({"name":"x","shape":[2],"dtype":"float32","producer_output_idx":-1})", "7"};
  ir.nodes = {
      R"({"name":"a","op_type":"aten.relu.default","inputs":[{"name":"x","shape":"[2]"}],"outputs":[]})",
      R"({"name":5,"op_type":"aten.relu.default","inputs":{},"outputs":[{"name":"y","shape":[2.5],"dtype":"float32"}]})"};
  EXPECT_EQ(message(ir.json()),
            "ir.json: graph_inputs[0].producer_output_idx: expected an index, found -1\n"
            "ir.json: graph_inputs[1]: expected a tensor object, found number\n"
            "ir.json: nodes[0].inputs[0].dtype: missing\n"
            "ir.json: nodes[0].inputs[0].shape: expected a list of integers, found string\n"
            "ir.json: nodes[1].name: expected a string, found number\n"
            "ir.json: nodes[1].inputs: expected a list of tensors, found object\n"
            "ir.json: nodes[1].outputs[0].shape[0]: expected an integer, found number");
}

// Shapes are static.
TEST(ImportErrors, P17Shapes) {
  Ir ir = good();
  ir.inputs = {tensor("x", "[-1,3]")};
  EXPECT_EQ(message(ir.json()),
            "ir.json: graph_inputs[0].shape[0]: tensor 'x': expected a static dimension of at least 0, found -1");
  ir.inputs = {tensor("x", "[4294967296,4294967296,4294967296]")};
  EXPECT_EQ(
      message(ir.json()),
      "ir.json: graph_inputs[0].shape: tensor 'x': shape [4294967296, 4294967296, 4294967296] has too many elements");
}

TEST(ImportErrors, Dtypes) {
  Ir ir = good();
  ir.inputs = {tensor("x", "[2]", "complex64")};
  ir.nodes = {node("y", "aten.relu.default", {read("x", "[2]", "complex64")}, {tensor("y", "[2]", "float8_e4m3fn")})};
  EXPECT_EQ(message(ir.json(), ErrorKind::unsupported),
            "ir.json: graph input 'x': dtype complex64 is not supported\n"
            "ir.json: node 'y' (aten.relu.default): output 'y': dtype float8_e4m3fn is not supported");
}

// A node that nothing can compute is an error at compile time.
TEST(ImportErrors, UnknownOps) {
  Ir ir = good();
  ir.nodes = {node("a", "aten.nothing.default", {read("x", "[2]")}, {tensor("a", "[2]")}),
              node("b", "prims.odd", {read("a", "[2]")}, {tensor("b", "[2]")}),
              node("y", "aten.nothing.default", {read("b", "[2]")}, {tensor("y", "[2]")})};
  EXPECT_EQ(message(ir.json(), ErrorKind::unsupported),
            "ir.json: op aten.nothing.default is not supported (2 nodes: a, y)\n"
            "ir.json: op prims.odd is not supported (1 node: b)");
}

TEST(ImportErrors, Order) {
  Ir ir = good();
  ir.nodes = {node("a", "aten.relu.default", {read("y", "[2]")}, {tensor("a", "[2]")}),
              node("b", "aten.relu.default", {read("b", "[2]")}, {tensor("b", "[2]")}),
              node("c", "aten.relu.default", {read("ghost", "[2]")}, {tensor("c", "[2]")}),
              node("d", "aten.relu.default", {tensor("ghost", "[2]")}, {tensor("d", "[2]")}),
              node("y", "aten.relu.default", {read("x", "[2]")}, {tensor("y", "[2]")})};
  EXPECT_EQ(
      message(ir.json()),
      "ir.json: node 'a' (aten.relu.default): reads 'y', which is produced later: nodes must stand in topological "
      "order\n"
      "ir.json: node 'b' (aten.relu.default): reads 'b', which is produced by itself\n"
      "ir.json: node 'c' (aten.relu.default): reads 'ghost' of 'ghost', which is no node, graph input or weight\n"
      "ir.json: node 'd' (aten.relu.default): reads 'ghost', which is no output, graph input or weight");
}

// What nothing defines is named, never taken for another operand or a number.
TEST(ImportErrors, Names) {
  Ir ir = good();
  ir.inputs = {tensor("x", "[2]"), tensor("x", "[2]")};
  ir.nodes.push_back(node("x", "aten.relu.default", {read("y", "[2]")}, {tensor("z", "[2]")}));
  ir.nodes.push_back(node("y", "aten.relu.default", {read("x", "[2]")}, {tensor("y", "[2]")}));
  EXPECT_EQ(
      message(ir.json()),
      "ir.json: graph input 'x': the name is given twice\n"
      "ir.json: node 'x' (aten.relu.default): the name is a graph input's too\n"
      "ir.json: node 'y' (aten.relu.default): the name is given to two nodes\n"
      "ir.json: node 'y' (aten.relu.default): its output 'y' is also that of node 'y' (aten.relu.default)\n"
      "ir.json: node 'y' (aten.relu.default): reads 'x', which is produced later: nodes must stand in topological "
      "order");
}

TEST(ImportErrors, TypesOfEdges) {
  Ir ir = good();
  ir.weights = {tensor("w", "[2]")};
  ir.mapping = R"({"p_w":"w"})";
  ir.nodes = {node("a", "aten.mul.Tensor", {read("x", "[3]"), tensor("p_w", "[2]", "float16")}, {tensor("a", "[2]")}),
              node("y", "aten.relu.default", {read("a", "[2]", "int64")}, {tensor("y", "[2]")})};
  ir.outputs = {tensor("y", "[4]")};
  EXPECT_EQ(message(ir.json()),
            "ir.json: node 'a' (aten.mul.Tensor): reads 'x' as float32[3], but graph input 'x' is float32[2]\n"
            "ir.json: node 'a' (aten.mul.Tensor): reads 'p_w' as float16[2], but weight 'w' is float32[2]\n"
            "ir.json: node 'y' (aten.relu.default): reads 'a' as int64[2], but node 'a' is float32[2]\n"
            "ir.json: graph output: reads 'y' as float32[4], but node 'y' is float32[2]");
}

TEST(ImportErrors, ProducerIndices) {
  Ir ir = good();
  ir.nodes = {node("a", "aten.relu.default", {tensor("x", "[2]", "float32", "x", 0)}, {tensor("a", "[2]")}),
              node("y", "aten.relu.default", {tensor("a", "[2]", "float32", "a", 1)}, {tensor("y", "[2]")})};
  EXPECT_EQ(
      message(ir.json()),
      "ir.json: node 'y' (aten.relu.default): reads 'a' as output 1 of node 'a' (aten.relu.default), but it is output "
      "0\n"
      "ir.json: node 'y' (aten.relu.default): reads output 1 of node 'a' (aten.relu.default), which has 1");
}

// Operands and attributes are checked by the call's own schema and shapes.
TEST(ImportErrors, Calls) {
  Ir ir = good();
  ir.nodes = {node("a", "aten.relu.default", {read("x", "[2]")}, {tensor("a", "[3]")}),
              node("b", "aten.add.Tensor", {read("x", "[2]")}, {tensor("b", "[2]")}),
              node("c", "aten.transpose.int", {read("x", "[2]")}, {tensor("c", "[2]")}, R"({"dim0":0,"dim1":3})"),
              node("d", "aten.relu.default", {read("x", "[2]")}, {tensor("d", "[2]"), tensor("e", "[2]")}),
              node("y", "aten.relu.default", {}, {tensor("y", "[2]")}, R"({"self":2.0})")};
  EXPECT_EQ(message(ir.json()),
            "ir.json: node 'a' (aten.relu.default): declares result 0 as float32[3], expected float32[2]\n"
            "ir.json: node 'b' (aten.add.Tensor): expected 2 tensors, found 1\n"
            "ir.json: node 'c' (aten.transpose.int): dimension 3 is out of range for rank 1\n"
            "ir.json: node 'd' (aten.relu.default): declares 2 results, expected 1\n"
            "ir.json: node 'y' (aten.relu.default): argument 'self' must be a tensor, found 2");
}

TEST(ImportErrors, Constants) {
  Ir ir = good();
  ir.weights = {tensor("k", "[2]"), tensor("m", "[2]", "int64")};
  ir.constants = R"({"k":{"data":[1],"dtype":"float32"},"m":{"data":[1,2],"dtype":"float32"},"n":{"data":[1]},"o":3})";
  ir.nodes = {node("a", "aten.mul.Tensor", {read("x", "[2]"), tensor("k", "[2]")}, {tensor("a", "[2]")}),
              node("y", "aten.mul.Tensor", {read("a", "[2]"), tensor("m", "[2]", "int64")}, {tensor("y", "[2]")})};
  EXPECT_EQ(message(ir.json()),
            "ir.json: constants.n.dtype: missing\n"
            "ir.json: constants.o: expected an object with data and dtype, found number\n"
            "ir.json: constant 'k': expected 2 numbers for float32[2], found 1\n"
            "ir.json: constant 'm': declared as int64[2], but its data is float32");
}

// A problem is reported where it is, not at everything that follows from it.
TEST(ImportErrors, NoEchoes) {
  Ir ir = good();
  ir.nodes = {node("a", "aten.relu.default", {read("ghost", "[7]")}, {tensor("a", "[7]", "complex32")}),
              node("b", "aten.add.Tensor", {read("a", "[7]", "complex32"), read("x", "[2]")}, {tensor("b", "[2]")}),
              node("y", "aten.relu.default", {read("b", "[2]")}, {tensor("y", "[2]")})};
  EXPECT_EQ(message(ir.json()),
            "ir.json: node 'a' (aten.relu.default): reads 'ghost' of 'ghost', which is no node, graph input or weight\n"
            "ir.json: node 'a' (aten.relu.default): output 'a': dtype complex32 is not supported");
}

TEST(ImportErrors, ManyProblemsAreCut) {
  Ir ir = good();
  for (int i = 0; i < 100; ++i) {
    const std::string name = "n" + std::to_string(i);
    ir.nodes.push_back(node(name, "aten.relu.default", {read("ghost", "[2]")}, {tensor(name, "[2]")}));
  }
  const std::string text = message(ir.json(), ErrorKind::bad_input, 3);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.substr(text.rfind('\n') + 1), "ir.json: and 97 more");
}

TEST(ImportErrors, OneLineEach) {
  Ir ir = good();
  ir.nodes = {node("two\\nlines", "aten.nothing.default", {}, {})};
  ir.outputs = {};
  EXPECT_EQ(message(ir.json(), ErrorKind::unsupported),
            "ir.json: op aten.nothing.default is not supported (1 node: two\\nlines)");
}

}  // namespace
}  // namespace npusim
