// Import of IR JSON: names, weights, constants, multiple outputs, graph outputs.
#include "graph/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "graph/ir.h"
#include "graph/text.h"

namespace npusim {
namespace {

using test::Ir;
using test::node;
using test::read;
using test::tensor;

Graph import(const Ir& ir) {
  Graph graph = import_ir(ir.json(), "test");
  EXPECT_EQ(check_graph(graph), std::vector<std::string>{});
  return graph;
}

// The text after its first line ("graph …").
std::string body(const Graph& graph) {
  const std::string text = to_text(graph);
  return text.substr(text.find('\n') + 1);
}

std::string refusal(const Ir& ir, ErrorKind kind = ErrorKind::bad_input) {
  try {
    import_ir(ir.json(), "test");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "imported";
  return {};
}

TEST(Import, ProducersAndDefaults) {
  Ir ir;
  ir.inputs = {tensor("x", "[2,3]"), tensor("y", "[3]")};
  ir.outputs = {tensor("add", "[2,3]")};
  ir.nodes = {node("add", "aten.add.Tensor", {read("x", "[2,3]"), read("y", "[3]")}, {tensor("add", "[2,3]")})};
  EXPECT_EQ(body(import(ir)),
            "input %x: float32[2, 3]\n"
            "input %y: float32[3]\n"
            "%add: float32[2, 3] = aten.add.Tensor(%x, %y, alpha=1)\n"
            "output %add\n");
}

TEST(Import, TestStyleWithoutProducers) {
  Ir ir;
  ir.inputs = {tensor("x", "[2,3]")};
  ir.outputs = {tensor("y", "[2,4]")};
  ir.weights = {tensor("fc.weight", "[4,3]")};
  ir.nodes = {node("l", "aten::linear", {tensor("x", "[2,3]"), tensor("fc.weight", "[4,3]")}, {tensor("h", "[2,4]")}),
              node("r", "torch.ops.aten.relu", {tensor("h", "[2,4]")}, {tensor("y", "[2,4]")})};
  EXPECT_EQ(body(import(ir)),
            "input %x: float32[2, 3]\n"
            "weight %fc.weight: float32[4, 3] = \"fc.weight\"\n"
            "%h: float32[2, 4] = aten.linear.default(%x, %fc.weight, None) @l\n"
            "%y: float32[2, 4] = aten.relu.default(%h) @r\n"
            "output %y\n");
}

// The extractor's documents show placeholder names in `weights`.
TEST(Import, P15PlaceholderNamedWeights) {
  Ir ir;
  ir.inputs = {tensor("x", "[2,3]")};
  ir.outputs = {tensor("l", "[2,4]")};
  ir.weights = {tensor("p_fc_weight", "[4,3]")};
  ir.nodes = {
      node("l", "aten.linear.default", {read("x", "[2,3]"), tensor("p_fc_weight", "[4,3]")}, {tensor("l", "[2,4]")})};
  EXPECT_EQ(import(ir).values[1].fqn, "p_fc_weight");
  ir.mapping = R"({"p_fc_weight":"fc.weight"})";
  EXPECT_EQ(import(ir).values[1].fqn, "fc.weight");
}

// Placeholders lead; two of one name are one value, and what nothing reads is no weight of the graph.
TEST(Import, W64TiedAndUnusedWeights) {
  Ir ir;
  ir.inputs = {tensor("x", "[3,3]")};
  ir.outputs = {tensor("b", "[3,3]")};
  ir.weights = {tensor("w", "[3,3]"), tensor("bn.num_batches_tracked", "[]", "int64"),
                tensor("odd", "[2]", "complex64")};
  ir.mapping = R"({"p_w":"w","p_tied":"w","b_n":"bn.num_batches_tracked"})";
  ir.nodes = {
      node("a", "aten.matmul.default", {read("x", "[3,3]"), tensor("p_w", "[3,3]")}, {tensor("a", "[3,3]")}),
      node("b", "aten.matmul.default", {read("a", "[3,3]"), tensor("p_tied", "[3,3]")}, {tensor("b", "[3,3]")})};
  const Graph graph = import(ir);
  EXPECT_EQ(graph.values.size(), 4u);
  EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
  const Value& weight = value_of(graph, graph.nodes[0].inputs[1]);
  EXPECT_EQ(weight.source, ValueSource::weight);
  EXPECT_EQ(weight.name, "p_w");
  EXPECT_EQ(weight.fqn, "w");
}

// Constants are values of the graph, with the shape and dtype `weights` declares.
TEST(Import, W63Constants) {
  Ir ir;
  ir.inputs = {tensor("x", "[2,2]", "bfloat16")};
  ir.outputs = {tensor("b", "[2,2]", "bfloat16")};
  ir.weights = {tensor("mask", "[2,2]", "bfloat16"), tensor("k", "[]", "bfloat16")};
  ir.mapping = R"({"c_mask":"mask","c_k":"k"})";
  ir.constants =
      R"({"mask":{"data":[[1.0,0.5],[NaN,-Infinity]],"dtype":"bfloat16"},"k":{"data":3.5,"dtype":"bfloat16"}})";
  ir.nodes = {node("a", "aten.mul.Tensor", {read("x", "[2,2]", "bfloat16"), tensor("c_mask", "[2,2]", "bfloat16")},
                   {tensor("a", "[2,2]", "bfloat16")}),
              node("b", "aten.mul.Tensor", {read("a", "[2,2]", "bfloat16"), tensor("c_k", "[]", "bfloat16")},
                   {tensor("b", "[2,2]", "bfloat16")})};
  const Graph graph = import(ir);
  const Value& mask = value_of(graph, graph.nodes[0].inputs[1]);
  ASSERT_EQ(mask.source, ValueSource::constant);
  EXPECT_EQ(mask.fqn, "mask");
  const auto* bits = reinterpret_cast<const uint16_t*>(mask.data->data.data());
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0x3f00);
  EXPECT_EQ(bits[2], 0x7fc0);
  EXPECT_EQ(bits[3], 0xff80);
  const Value& k = value_of(graph, graph.nodes[1].inputs[1]);
  EXPECT_EQ(k.type, (TensorType{DType::bf16, {}}));
  EXPECT_EQ(load_double(k.data->data.data(), DType::bf16, 0), 3.5);
}

// One flat namespace; producers decide, and a tuple's element may be called like another node.
TEST(Import, P1NamesThatClash) {
  Ir ir;
  ir.inputs = {tensor("x", "[4]")};
  ir.outputs = {tensor("split_1", "[2]"), tensor("mean", "[2]")};
  ir.weights = {tensor("mean", "[2]")};
  ir.mapping = R"({"b_mean":"mean"})";
  ir.nodes = {
      node("split", "aten.split.Tensor", {read("x", "[4]")}, {tensor("split_0", "[2]"), tensor("split_1", "[2]")},
           R"({"split_size":2})"),
      node("getitem", "<built-in function getitem>",
           {tensor("split_0", "[2]", "float32", "split", 0), tensor("split_1", "[2]", "float32", "split", 1)},
           {tensor("getitem", "[2]")}, R"({"index":1})"),
      node("split_1", "aten.relu.default", {read("getitem", "[2]")}, {tensor("split_1", "[2]")}),
      node("mean", "aten.mul.Tensor", {read("split_1", "[2]"), tensor("b_mean", "[2]")}, {tensor("mean", "[2]")})};
  const Graph graph = import(ir);
  EXPECT_EQ(body(graph),
            "input %x: float32[4]\n"
            "weight %b_mean: float32[2] = \"mean\"\n"
            "%split_0: float32[2], %split_1: float32[2] = aten.split.Tensor(%x, split_size=2, dim=0) @split\n"
            "%split_1_1: float32[2] = aten.relu.default(%split_1) @split_1\n"
            "%mean: float32[2] = aten.mul.Tensor(%split_1_1, %b_mean)\n"
            "output \"split_1\" = %split_1_1\n"
            "output %mean\n");
}

TEST(Import, P1AmbiguousNameIsRefused) {
  Ir ir;
  ir.inputs = {tensor("x", "[2]")};
  ir.outputs = {tensor("r", "[2]")};
  ir.weights = {tensor("mean", "[2]")};
  ir.nodes = {node("mean", "aten.relu.default", {read("x", "[2]")}, {tensor("mean", "[2]")}),
              node("r", "aten.relu.default", {tensor("mean", "[2]")}, {tensor("r", "[2]")})};
  EXPECT_EQ(
      refusal(ir),
      "test: node 'r' (aten.relu.default): reads 'mean' without producer_node, and the name is a weight, the output "
      "of node 'mean' (aten.relu.default)");
}

// The index counts the tuple, in which what is no tensor left a gap in the names.
// Each result of a node is found by its position.
TEST(Import, P13CompactedTuples) {
  Ir ir;
  ir.inputs = {tensor("x", "[4]")};
  ir.outputs = {tensor("item", "[4]")};
  ir.nodes = {node("f", "aten.log_sigmoid_forward.default", {read("x", "[4]")}, {tensor("f_1", "[4]")}),
              node("item", "<built-in function getitem>", {tensor("f_1", "[4]", "float32", "f", 0)},
                   {tensor("item", "[4]")}, R"({"index":1})")};
  EXPECT_EQ(body(import(ir)),
            "input %x: float32[4]\n"
            "%f_0: float32[4], %f_1: float32[4] = aten.log_sigmoid_forward.default(%x) @f\n"
            "output \"item\" = %f_1\n");
  ir.nodes[1] = node("item", "<built-in function getitem>", {tensor("f_1", "[4]", "float32", "f", 0)},
                     {tensor("item", "[4]")}, R"({"index":0})");
  EXPECT_EQ(
      refusal(ir),
      "test: node 'item' (<built-in function getitem>): element 0 of node 'f' (aten.log_sigmoid_forward.default) is "
      "no tensor");
}

// Graph outputs may be inputs, weights, or the same value twice.
TEST(Import, P14GraphOutputs) {
  Ir ir;
  ir.inputs = {tensor("x", "[2]"), tensor("unused", "[7]", "int64")};
  ir.outputs = {tensor("x", "[2]"), tensor("relu", "[2]"), tensor("p_w", "[3]"), tensor("relu", "[2]")};
  ir.weights = {tensor("w", "[3]")};
  ir.mapping = R"({"p_w":"w"})";
  ir.nodes = {node("relu", "aten.relu.default", {read("x", "[2]")}, {tensor("relu", "[2]")})};
  EXPECT_EQ(body(import(ir)),
            "input %x: float32[2]\n"
            "input %unused: int64[7]\n"
            "weight %p_w: float32[3] = \"w\"\n"
            "%relu: float32[2] = aten.relu.default(%x)\n"
            "output %x\n"
            "output %relu\n"
            "output %p_w\n"
            "output %relu\n");
}

// A tensor passed by keyword stands in attrs as its producer's name.
TEST(Import, P6KeywordTensors) {
  Ir ir;
  ir.inputs = {tensor("x", "[2]"), tensor("y", "[2]")};
  ir.outputs = {tensor("add", "[2]")};
  ir.weights = {tensor("w", "[2]")};
  ir.mapping = R"({"p_w":"w"})";
  ir.nodes = {
      node("relu", "aten.relu.default", {read("y", "[2]")}, {tensor("relu", "[2]")}),
      node("mul", "aten.mul.Tensor", {read("x", "[2]")}, {tensor("mul", "[2]")}, R"({"other":"p_w"})"),
      node("add", "aten.add.Tensor", {read("mul", "[2]")}, {tensor("add", "[2]")}, R"({"other":"relu","alpha":2})")};
  EXPECT_EQ(body(import(ir)),
            "input %x: float32[2]\n"
            "input %y: float32[2]\n"
            "weight %p_w: float32[2] = \"w\"\n"
            "%relu: float32[2] = aten.relu.default(%y)\n"
            "%mul: float32[2] = aten.mul.Tensor(%x, %p_w)\n"
            "%add: float32[2] = aten.add.Tensor(%mul, %relu, alpha=2)\n"
            "output %add\n");
}

TEST(Import, ScalarsInTensorSlots) {
  Ir ir;
  ir.inputs = {tensor("x", "[2]")};
  ir.outputs = {tensor("b", "[2]")};
  ir.nodes = {node("a", "aten.mul.Tensor", {read("x", "[2]")}, {tensor("a", "[2]")}, R"({"other":0.088})"),
              node("b", "aten.sub.Tensor", {read("a", "[2]")}, {tensor("b", "[2]")}, R"({"self":1})")};
  EXPECT_EQ(body(import(ir)),
            "input %x: float32[2]\n"
            "%a: float32[2] = aten.mul.Tensor(%x, 0.088)\n"
            "%b: float32[2] = aten.sub.Tensor(1, %a, alpha=1)\n"
            "output %b\n");
}

// In-place ops stay what they are until functionalize.
TEST(Import, P7InPlaceOps) {
  Ir ir;
  ir.inputs = {tensor("x", "[2]")};
  ir.outputs = {tensor("relu_", "[2]")};
  ir.nodes = {node("relu_", "aten.relu_.default", {read("x", "[2]")}, {tensor("relu_", "[2]")})};
  const Graph graph = import(ir);
  EXPECT_TRUE(graph.nodes[0].in_place);
  EXPECT_EQ(graph.nodes[0].op->name(), "aten.relu.default");
}

// Checks have no outputs; those npusim does not know are left out.
TEST(Import, Assertions) {
  Ir ir;
  ir.inputs = {tensor("x", "[2]")};
  ir.outputs = {tensor("relu", "[2]")};
  ir.nodes = {node("check", "aten._assert_tensor_metadata.default", {read("x", "[2]")}, {},
                   R"({"dtype":"torch.float32","device":"meta","layout":"torch.strided"})"),
              node("unknown", "aten._assert_nothing_known.default", {}, {}, R"({"size":3})"),
              node("relu", "aten.relu.default", {read("x", "[2]")}, {tensor("relu", "[2]")})};
  const Graph graph = import(ir);
  EXPECT_EQ(graph.nodes.size(), 2u);
  EXPECT_TRUE(graph.nodes[0].op->record.is_check);
  EXPECT_TRUE(graph.nodes[0].outputs.empty());
}

// What is not given has its schema's default, and null is None.
TEST(Import, W15DefaultsAndNulls) {
  Ir ir;
  ir.inputs = {tensor("x", "[4,6]")};
  ir.outputs = {tensor("b", "[4,4]")};
  ir.nodes = {node("a", "aten.slice.Tensor", {read("x", "[4,6]")}, {tensor("a", "[4,6]")}),
              node("b", "aten.slice.Tensor", {read("a", "[4,6]")}, {tensor("b", "[4,4]")},
                   R"({"dim":-1,"start":2,"end":9223372036854775807})")};
  const Graph graph = import(ir);
  EXPECT_EQ(to_string(graph.nodes[0].attrs[1]), "0");
  EXPECT_EQ(to_string(graph.nodes[0].attrs[2]), "None");
  EXPECT_EQ(to_string(graph.nodes[0].attrs[4]), "1");
  EXPECT_EQ(to_string(graph.nodes[1].attrs[3]), "9223372036854775807");
}

Ir rotary(std::string inv_freq, std::string positions, std::string output, std::string dtype = "float32") {
  Ir ir;
  ir.inputs = {tensor("f", inv_freq), tensor("p", positions, "int64")};
  ir.outputs = {tensor("cos", output, dtype), tensor("sin", output, dtype)};
  const std::string zero = tensor("w_0", output, dtype, "w", 0), one = tensor("w_1", output, dtype, "w", 1);
  ir.nodes = {
      node("w", "wrap_with_set_grad_enabled", {read("f", inv_freq), read("p", positions, "int64")},
           {tensor("w_0", output, dtype), tensor("w_1", output, dtype)}),
      node("cos", "<built-in function getitem>", {zero, one}, {tensor("cos", output, dtype)}, R"({"index":0})"),
      node("sin", "<built-in function getitem>", {zero, one}, {tensor("sin", output, dtype)}, R"({"index":1})")};
  return ir;
}

// The higher-order node is rotary only with its signature.
TEST(Import, W22Rotary) {
  // What the config.json beside the file says of cos and sin is tests/cli's matter.
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("npusim_rotary_{}", getpid());
  std::filesystem::create_directory(folder);
  const std::string ir = rotary("[4]", "[1,5]", "[1,5,8]", "bfloat16").json();
  std::ofstream(folder / "ir.json") << ir;
  std::ofstream(folder / "config.json") << "{}";
  const Graph graph = import_ir(ir, (folder / "ir.json").string());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(check_graph(graph), std::vector<std::string>{});
  const std::string text = body(graph);
  EXPECT_NE(text.find("aten.cos.default"), std::string::npos) << text;
  EXPECT_NE(text.find("output \"sin\" = %w_1\n"), std::string::npos) << text;
}

TEST(Import, W22OtherHigherOrderNodesAreRefused) {
  const std::string expected =
      "test: node 'w' (wrap_with_set_grad_enabled): is understood only as a rotary embedding, float32[D/2], int64[B, "
      "S] -> "
      "[B, S, D] [B, S, D]; found ";
  EXPECT_EQ(refusal(rotary("[4]", "[1,5]", "[1,5,4]"), ErrorKind::unsupported),
            expected + "float32[4], int64[1, 5] -> float32[1, 5, 4] float32[1, 5, 4]");
  EXPECT_EQ(refusal(rotary("[1,4]", "[1,5]", "[1,5,8]"), ErrorKind::unsupported),
            expected + "float32[1, 4], int64[1, 5] -> float32[1, 5, 8] float32[1, 5, 8]");
}

// What made a tensor does not say which argument it is: `max` may be a lower bound. The file can, with a null.
TEST(Import, NamesOfResultsSayNothing) {
  const auto clamp = [](const std::string& attrs) {
    Ir ir;
    ir.inputs = {tensor("x", "[2]")};
    ir.outputs = {tensor("y", "[2]")};
    ir.nodes = {node("max", "aten.neg.default", {read("x", "[2]")}, {tensor("max", "[2]")}),
                node("y", "aten.clamp.Tensor", {read("x", "[2]"), read("max", "[2]")}, {tensor("y", "[2]")}, attrs)};
    return ir;
  };
  EXPECT_EQ(refusal(clamp("{}"), ErrorKind::unsupported),
            "test: node 'y' (aten.clamp.Tensor): cannot tell which of min, max the 1 optional tensors are");
  EXPECT_THAT(body(import(clamp(R"({"max":null})"))), testing::HasSubstr("clamp.Tensor(%x, %max, None)"));
  EXPECT_THAT(body(import(clamp(R"({"min":null})"))), testing::HasSubstr("clamp.Tensor(%x, None, %max)"));
}

// Each kind of operator that has no record yet is named, and so is what of a known one has no meaning here.
TEST(Import, MissingOperatorsAreNamed) {
  for (const char* op :
       {"aten.mse_loss.default", "aten.log_normal.default", "aten.poisson.default", "aten.rrelu_with_noise.default",
        "aten.item.default", "aten.le", "aten.fft_fft.default", "aten.sum_to_size.default",
        "aten.fill_diagonal_.default", "aten.add.out", "aten.resize_.default", "wrap_with_autocast"}) {
    Ir ir;
    ir.inputs = {tensor("x", "[2]")};
    ir.outputs = {tensor("y", "[2]")};
    ir.nodes = {node("y", op, {read("x", "[2]")}, {tensor("y", "[2]")})};
    EXPECT_EQ(refusal(ir, ErrorKind::unsupported), fmt::format("test: op {} is not supported (1 node: y)", op));
  }
}

// Every IR of the examples imports, holds together, and survives its text.
TEST(Import, Examples) {
  const std::string root = NPUSIM_SOURCE_DIR "/examples/";
  const std::vector<std::string> files = {"zoo/convnext_tiny/ir.json",
                                          "zoo/densenet121/ir.json",
                                          "zoo/gpt2_2l/ir.json",
                                          "zoo/minilm_l6/ir.json",
                                          "zoo/mobilenet_v2/ir.json",
                                          "zoo/qwen2.5_1.5b_decode2048/ir.json",
                                          "zoo/qwen2.5_1.5b_decode32768/ir.json",
                                          "zoo/qwen2.5_1.5b_prefill128/ir.json",
                                          "zoo/qwen2.5_1.5b_prefill2048/ir.json",
                                          "zoo/qwen2_2l/ir.json",
                                          "zoo/resnet18/ir.json",
                                          "zoo/resnet50/ir.json",
                                          "zoo/t5_enc_2l/ir.json",
                                          "zoo/vit_b_16/ir.json",
                                          "models/digits/ir.json",
                                          "models/tinyqwen/prefill_ir.json",
                                          "models/tinyqwen/decode_ir.json"};
  int found = 0;
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    std::string json;
    try {
      json = read_file(root + file);
    } catch (const Error&) {
      continue;
    }
    ++found;
    try {
      const Graph graph = import_ir(json, file);
      EXPECT_EQ(check_graph(graph), std::vector<std::string>{});
      const std::string text = to_text(graph);
      EXPECT_EQ(to_text(parse_graph(text)), text);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  if (!found) GTEST_SKIP() << "no examples under " << root;
}

}  // namespace
}  // namespace npusim
