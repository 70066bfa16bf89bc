// Faults that a target of the test puts into programs are found in one command.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compiler/bisect_for.h"
#include "compiler/compile_for.h"
#include "compiler/ir.h"
#include "compiler/wrong_keys.h"
#include "faulty.h"
#include "npusim/compare.h"
#include "npusim/session.h"
#include "program/program.h"

namespace npusim {
namespace {

const std::string digits = NPUSIM_SOURCE_DIR "/examples/models/digits/";

Bisection bisect_model(const Faulty& target, const MethodSource& source, std::shared_ptr<const TensorSet> weights,
                       double tolerance, const std::string& output = {}) {
  CompileOptions options;
  options.dtype = "float32";
  return bisect_for(target, source, options, random_inputs(*compile_for(target, {source}, options).program),
                    std::move(weights), tolerance, output);
}

// What the CPU was told to do of the whole it does of each part, which has not all of those operators and nodes.
TEST(Bisect, PartsKeepWhatTheCpuDoes) {
  const MethodSource source{"main", digits + "ir.json", {}};
  CompileOptions forced;
  forced.dtype = "float32";
  forced.force_cpu = {"relu"};
  CompileOptions planned = forced;
  planned.force_cpu.clear();
  planned.plan = {"", partition_plan(*compile({source}, forced).program)};
  for (const CompileOptions& options : {forced, planned}) {
    const Bisection found = bisect(source, options, random_inputs(*compile({source}, options).program),
                                   open_tensors(digits + "model.safetensors"), 1e-4, {});
    EXPECT_EQ(found.culprit, -1) << describe_bisection(found, false);
  }
}

TEST(Bisect, FindsAFusionThatIsWrong) {
  const Faulty target(drop_bound);
  const std::string output = testing::TempDir() + "bisect_fusion";
  const Bisection found =
      bisect_model(target, {"main", digits + "ir.json", {}}, open_tensors(digits + "model.safetensors"), 1e-4, output);
  EXPECT_GT(target.spoiled(), 0);
  EXPECT_GT(found.outputs, 1e-2);
  ASSERT_GE(found.culprit, 0) << describe_bisection(found, false);
  const PartError& part = found.parts[static_cast<size_t>(found.culprit)];
  EXPECT_EQ(part.operators, (std::vector<std::string>{"aten.conv2d.default", "aten.batch_norm.default",
                                                      "aten.add.Tensor", "aten.relu.default"}));
  EXPECT_EQ(found.first, found.culprit);
  EXPECT_EQ(found.node, -1) << describe_bisection(found, false);
  EXPECT_NE(std::find(found.fusions.begin(), found.fusions.end(), "fuse_epilogues"), found.fusions.end())
      << describe_bisection(found, false);
  // What is left behind shows it, and nothing but the target is wrong with it.
  CompileOptions options;
  options.dtype = "float32";
  const MethodSource bundle{"main", output + "/ir.json", {}};
  const auto run = [&](const CodegenTarget& on) {
    const auto program = compile_for(on, {bundle}, options).program;
    Session session(program, {.weights = open_tensors(output + "/weights.safetensors"), .devices = {}});
    const auto inputs = open_tensors(output + "/inputs.safetensors"),
               golden = open_tensors(output + "/golden.safetensors");
    for (const TensorInfo& info : method_inputs(*program, "main"))
      session.set_input("main", info.name, get_tensor(*inputs, info.name));
    session.run("main");
    const std::string name = method_outputs(*program, "main")[0].name;
    return compare(to_doubles(session.output_view("main", name)), to_doubles(get_tensor(*golden, name)), 1).relative_l2;
  };
  EXPECT_GT(run(target), 1e-2);
  EXPECT_LT(run(*find_target("cpu")), 1e-5);
  std::filesystem::remove_all(output);
}

TEST(Bisect, FindsAnOperatorThatRounds) {
  const Faulty target(round_roots);
  const Bisection found = bisect_model(target, text_ir(Mask::none, 8).finish("main"), text_weights(), 1e-5);
  EXPECT_GT(target.spoiled(), 0);
  ASSERT_GE(found.culprit, 0) << describe_bisection(found, false);
  ASSERT_GE(found.node, 0) << describe_bisection(found, false);
  const PartError& node = found.nodes[static_cast<size_t>(found.node)];
  EXPECT_EQ(node.nodes, std::vector<std::string>{"y_0"});
  EXPECT_EQ(node.operators, std::vector<std::string>{"aten.layer_norm.default"});
  const std::string text = describe_bisection(found, false);
  EXPECT_NE(text.find("its node y_0 (aten.layer_norm.default) is wrong alone"), std::string::npos) << text;
  EXPECT_NE(describe_bisection(found, true).find("\"culprit\": " + std::to_string(found.culprit)), std::string::npos);
}

TEST(Bisect, FindsNothingWhereNothingIsWrong) {
  const Faulty target([](Kernel&) { return false; });
  for (const MethodSource& source :
       {MethodSource{"main", digits + "ir.json", {}}, text_ir(Mask::ones, 8).finish("main")}) {
    const bool text = source.path != digits + "ir.json";
    const Bisection found =
        bisect_model(target, source, text ? text_weights() : open_tensors(digits + "model.safetensors"), 1e-5);
    EXPECT_LT(found.outputs, 1e-5);
    EXPECT_GT(found.parts.size(), 5U);
    EXPECT_EQ(found.first, -1) << describe_bisection(found, false);
    EXPECT_EQ(found.culprit, -1) << describe_bisection(found, false);
  }
}

// The fault is in what a device makes of one launch, and only where operands are of 16 bits and there are more than two
// stages of keys: parts that are compiled alone, between float32, do not have it.
TEST(Bisect, FindsAnAttentionThatReadsWrongKeysInTheProgramAlone) {
  const SpeechEncoder model = speech_encoder(1, 300, 32, 2);
  const MethodSource& source = model.source;
  CompileOptions options;
  options.dtype = "float16";
  const CodegenTarget& cpu = *find_target("cpu");
  const auto inputs = random_inputs(*compile_for(cpu, {source}, options).program);
  const Bisection found =
      bisect_for(cpu, source, options, inputs, model.weights, {}, {}, {std::make_shared<WrongKeys>()});
  const std::string text = describe_bisection(found, false);
  EXPECT_EQ(found.tolerance, 0.02);
  ASSERT_GE(found.culprit, 0) << text;
  const PartError& part = found.parts[static_cast<size_t>(found.culprit)];
  EXPECT_NE(std::find(part.nodes.begin(), part.nodes.end(), "attention_0"), part.nodes.end()) << text;
  EXPECT_TRUE(found.launch) << text;
  EXPECT_GT(part.executed, 0.05) << text;
  EXPECT_NE(text.find("it is executed as: "), std::string::npos) << text;
  EXPECT_NE(describe_bisection(found, true).find("\"executed\": "), std::string::npos);
  for (const PartError& other : found.parts) {
    const bool attention = other.operators.end() != std::find(other.operators.begin(), other.operators.end(),
                                                              "aten.scaled_dot_product_attention.default");
    EXPECT_EQ(other.executed > found.tolerance, attention) << text;
  }
  const Bisection right = bisect_for(cpu, source, options, inputs, model.weights, {});
  EXPECT_EQ(right.culprit, -1) << describe_bisection(right, false);
  EXPECT_LT(right.outputs, 0.02);
  for (const PartError& other : right.parts) EXPECT_LT(other.executed, 0.01) << describe_bisection(right, false);
}

}  // namespace
}  // namespace npusim
