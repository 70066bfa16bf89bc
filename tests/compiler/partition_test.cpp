// Programs on two devices: which nodes go where and why, in which order, and what crosses.
#include "program/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "compiler/compile_for.h"
#include "compiler/ir.h"
#include "hidden_memory.h"
#include "text/generate.h"

namespace npusim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A device that takes no contraction.
class NoProducts : public CodegenTarget {
 public:
  NoProducts() { config_.name = "no_products"; }
  std::string refuse(const Kernel& kernel) const override { return kernel.contraction ? "it has no products" : ""; }
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

CompileOptions forced(std::set<std::string> operators) {
  CompileOptions options;
  options.dtype = "float32";
  options.force_cpu = std::move(operators);
  return options;
}

std::vector<std::string> segments_text(const Program& program) {
  std::vector<std::string> list;
  KernelWorks works(program);
  for (const DeviceSegment& segment : segments_of(program, works, program.methods[0])) {
    std::string text = std::to_string(segment.device) + ":";
    for (const Crossing& crossing : segment.before) text += " <" + crossing.value;
    for (const int32_t origin : segment.origins) text += " " + program.origins[static_cast<size_t>(origin)].node;
    list.push_back(text);
  }
  return list;
}

// Two chains, one after the other in the IR, change device together.
TEST(Partition, ChangesDeviceAsSeldomAsTheDataFlowAllows) {
  IrBuilder b;
  for (const std::string chain : {"a", "b", "c"}) {
    b.input("x_" + chain, {2, 3});
    b.node(chain + "0", "exp.default", {"x_" + chain}, {2, 3});
    b.node(chain + "1", "sin.default", {chain + "0"}, {2, 3});
    b.node(chain + "2", "exp.default", {chain + "1"}, {2, 3});
    b.output(chain + "2");
  }
  const auto program = compile({b.finish("main")}, forced({"sin"})).program;
  EXPECT_THAT(segments_text(*program),
              ElementsAre("0: a0 b0 c0", "1: <a0 <b0 <c0 a1 b1 c1", "0: <a1 <b1 <c1 a2 b2 c2"));
  EXPECT_THAT(segments_text(*compile({b.finish("main")}, forced({"exp"})).program),
              ElementsAre("1: a0 b0 c0", "0: <a0 <b0 <c0 a1 b1 c1", "1: <a1 <b1 <c1 a2 b2 c2"));
}

// Beginning on the device that the longest chain begins on.
TEST(Partition, BeginsWhereItSavesAChange) {
  IrBuilder b;
  b.input("x", {4});
  b.node("away", "sin.default", {"x"}, {4});
  b.node("here", "exp.default", {"x"}, {4});
  b.node("both", "add.Tensor", {"away", "here"}, {4});
  b.output("both");
  EXPECT_THAT(segments_text(*compile({b.finish("main")}, forced({"sin"})).program),
              ElementsAre("1: away", "0: <away <x here both"));
}

TEST(Partition, AValueCrossesOnce) {
  IrBuilder b;
  b.input("x", {4});
  b.node("e", "exp.default", {"x"}, {4});
  b.node("s", "sin.default", {"e"}, {4});
  b.node("back", "exp.default", {"s"}, {4});
  b.node("again", "sin.default", {"back"}, {4});
  b.node("sum", "cos.default", {"e"}, {4});
  b.node("all", "mul.Tensor", {"again", "sum"}, {4});
  b.output("all");
  const auto program = compile({b.finish("main")}, forced({"sin", "cos", "mul"})).program;
  EXPECT_THAT(segments_text(*program), ElementsAre("0: e", "1: <e s", "0: <s back", "1: <back again sum all"));
}

// A view is where its readers are, unless less crosses when it is with what it reads.
TEST(Partition, ViewsFollowTheirData) {
  IrBuilder b;
  b.input("x", {4, 6});
  b.node("e", "exp.default", {"x"}, {4, 6});
  b.node("turned", "transpose.int", {"e"}, {6, 4}, {{"dim0", 0}, {"dim1", 1}});
  b.node("s", "sin.default", {"turned"}, {6, 4});
  b.output("s");
  EXPECT_THAT(segments_text(*compile({b.finish("main")}, forced({"sin"})).program),
              ElementsAre("0: e", "1: <e turned s"));
  IrBuilder c;
  c.input("x", {4, 6});
  c.node("e", "exp.default", {"x"}, {4, 6});
  c.node("part", "slice.Tensor", {"e"}, {1, 6}, {{"dim", 0}, {"start", 2}, {"end", 3}});
  c.node("s", "sin.default", {"part"}, {1, 6});
  c.output("s");
  const auto program = compile({c.finish("main")}, forced({"sin"})).program;
  EXPECT_THAT(segments_text(*program), ElementsAre("0: e part", "1: <part s"));
  KernelWorks works(*program);
  EXPECT_EQ(segments_of(*program, works, program->methods[0])[1].before[0].bytes, 24U);
}

// What is known at load is prepared where it is read.
TEST(Partition, WeightsAreWhereTheyAreRead) {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("w", "exp.default", {b.weight("weight", {4, 3})}, {4, 3});
  b.node("y", "linear.default", {"x", "w"}, {2, 4});
  b.node("z", "exp.default", {"y"}, {2, 4});
  b.output("z");
  const auto program = compile({b.finish("main")}, forced({"linear"})).program;
  EXPECT_TRUE(std::all_of(program->buffers.begin(), program->buffers.end(), [](const Buffer& buffer) {
    return (buffer.kind != BufferKind::weight && buffer.kind != BufferKind::prepared) || buffer.device == 1;
  }));
  for (const Step& step : program->recipes.steps) EXPECT_FALSE(step.is_transfer());
}

TEST(Partition, WhatTheTargetRefusesHasAReason) {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("e", "exp.default", {"x"}, {2, 3});
  b.node("y", "linear.default", {"e", b.weight("weight", {4, 3})}, {2, 4});
  b.node("z", "sin.default", {"y"}, {2, 4});
  b.output("z");
  const NoProducts target;
  CompileOptions options;
  options.dtype = "float32";
  const CompileResult result = compile_for(target, {b.finish("main")}, options);
  EXPECT_THAT(segments_text(*result.program), ElementsAre("0: e", "1: <e y", "0: <y z"));
  EXPECT_THAT(result.notes, ElementsAre("1 node runs on the CPU: y: it has no products"));
  EXPECT_THAT(describe_partition(*result.program, false),
              HasSubstr("aten.linear.default: it has no products\n    y\n"));
  options.fallback = false;
  EXPECT_EQ(error_of([&] { compile_for(target, {b.finish("main")}, options); }), "node y: it has no products");

  // The plan that this makes gives the same program; one that says otherwise is refused.
  options.fallback = true;
  options.plan.json = partition_plan(*result.program);
  EXPECT_EQ(serialize(*compile_for(target, {b.finish("main")}, options).program), serialize(*result.program));
  options.plan.json = R"({"methods": {"main": {"cpu": {"z": "because"}}}})";
  EXPECT_EQ(error_of([&] { compile_for(target, {b.finish("main")}, options); }), "node y: it has no products");
  options.plan.json = R"({"methods": {"main": {"cpu": {"y": "no products", "z": "because"}}}})";
  EXPECT_THAT(segments_text(*compile_for(target, {b.finish("main")}, options).program),
              ElementsAre("0: e", "1: <e y z"));
}

// A view that moves nothing is no kernel, wherever it was wanted.
TEST(Partition, WhatVanishesRunsNowhere) {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("e", "exp.default", {"x"}, {2, 3});
  b.node("flat", "view.default", {"e"}, {6}, {{"size", {6}}});
  b.output("flat");
  const CompileResult result = compile({b.finish("main")}, forced({"view"}));
  EXPECT_EQ(result.program->devices.size(), 1U);
  EXPECT_TRUE(result.notes.empty());
}

TEST(Partition, BrokenRulesHaveAReason) {
  IrBuilder b;
  b.input("x", {2, 3, 4});
  b.node("e", "exp.default", {"x"}, {2, 3, 4});
  b.node("sum", "sum.dim_IntList", {"e"}, {2, 3}, {{"dim", {2}}});
  b.node("s", "sin.default", {"sum"}, {2, 3});
  b.output("s");
  CompileOptions options;
  options.config.json = R"({"max_rank": 2})";
  const CompileResult result = compile({b.finish("main")}, options);
  EXPECT_THAT(segments_text(*result.program), ElementsAre("1: e sum", "0: <sum s"));
  EXPECT_THAT(result.program->origins[0].reason, HasSubstr("'x' has 3 dimensions: target cpu takes at most 2"));
  options.plan.json = partition_plan(*result.program);
  EXPECT_EQ(serialize(*compile({b.finish("main")}, options).program), serialize(*result.program));
  options.plan.json = R"({"methods": {"main": {"cpu": {"e": "because"}}}})";
  EXPECT_THAT(error_of([&] { compile({b.finish("main")}, options); }), HasSubstr("node sum: "));
  options.plan = {};
  options.fallback = false;
  EXPECT_THAT(error_of([&] { compile({b.finish("main")}, options); }), HasSubstr("node e: 'x' has 3 dimensions"));
}

TEST(Partition, WrongWishes) {
  IrBuilder b;
  b.input("x", {2});
  b.node("e", "exp.default", {"x"}, {2});
  b.output("e");
  const auto problem = [&](const CompileOptions& options) {
    return error_of([&] { compile({b.finish("main")}, options); });
  };
  EXPECT_EQ(problem(forced({"sin"})), "--force-cpu sin: no node of the model is of this operator");
  EXPECT_EQ(problem(forced({"ex"})), "--force-cpu ex: no node of the model is of this operator; did you mean exp?");
  for (const char* name : {"exp", "aten.exp", "aten.exp.default", "exp.default"})
    EXPECT_EQ(problem(forced({name})), "");
  CompileOptions both = forced({"exp"});
  both.fallback = false;
  EXPECT_EQ(problem(both), "--force-cpu and --no-fallback: expected one of them");
  const auto plan = [&](const char* json) {
    CompileOptions options;
    options.plan.json = json;
    return problem(options);
  };
  EXPECT_EQ(plan(R"({})"), "plan: missing \"methods\"");
  EXPECT_EQ(plan(R"({"methods": []})"), "plan: methods: expected an object, found array");
  EXPECT_EQ(plan(R"({"methods": {"other": {"cpu": {}}}})"),
            "plan: methods: no method is called \"other\": expected main");
  EXPECT_EQ(plan(R"({"methods": {}, "cpu": {}})"), "plan: unknown key \"cpu\": expected methods");
  EXPECT_EQ(plan(R"({"methods": {"main": {"cpu": {}, "gpu": {}}}})"),
            "plan: methods.main: unknown key \"gpu\": expected cpu; did you mean cpu?");
  EXPECT_EQ(plan(R"({"methods": {"main": {}}})"), "plan: methods.main: missing \"cpu\"");
  EXPECT_EQ(plan(R"({"methods": {"main": {"cpu": {"f": "x"}}}})"),
            "plan: methods.main.cpu: the model has no node \"f\"");
  EXPECT_EQ(plan(R"({"methods": {"main": {"cpu": {"e": 1}}}})"),
            "plan: methods.main.cpu.e: expected the reason, found 1");
}

// Every operator of a text model in turn, its states' updates among them: the same tokens.
TEST(Partition, TextsStayTheSame) {
  const auto compile_text = [](const CompileOptions& options) {
    return compile({text_ir(Mask::added, 8).finish("prefill"), text_ir(Mask::added, 1, 16).finish("decode")}, options)
        .program;
  };
  const auto write = [](const std::shared_ptr<const Program>& program) {
    std::vector<std::shared_ptr<Backend>> devices = {
        std::make_shared<test::HiddenMemory>(std::make_shared<test::Crossings>())};
    if (program->devices.size() == 2) devices.push_back(open_backend("cpu"));
    Session session(program, {.weights = text_weights(), .devices = devices, .threads = 1});
    GenerateOptions options;
    options.max_new_tokens = 12;
    return generate(session, {3, 1, 4, 1, 5}, options, [](int64_t) {}).tokens;
  };
  const std::vector<int64_t> expected = write(compile_text(forced({})));
  ASSERT_EQ(expected.size(), 12U);
  for (const char* op : {"embedding", "add", "linear", "transpose", "view", "scaled_dot_product_attention", "gelu",
                         "layer_norm", "reshape"})
    EXPECT_EQ(write(compile_text(forced({op}))), expected) << op;
  // Only decode has this one; both put the states where it is.
  const auto program = compile_text(forced({"embedding"}));
  MethodSource prefill = text_ir(Mask::added, 8).finish("prefill"),
               decode = text_ir(Mask::added, 1, 16).finish("decode");
  CompileOptions options = forced({"index_copy"});
  const auto divided = compile({prefill, decode}, options).program;
  EXPECT_EQ(write(divided), expected);
  EXPECT_TRUE(std::all_of(divided->buffers.begin(), divided->buffers.end(), [](const Buffer& buffer) {
    return buffer.kind != BufferKind::state || !buffer.name.ends_with("_state_0") || buffer.device == 1;
  }));
}

TEST(Partition, PicturesAreWhole) {
  IrBuilder b;
  b.input("x", {2});
  b.node("a<b", "exp.default", {"x"}, {2});
  b.node("s", "sin.default", {"a<b"}, {2});
  b.output("s");
  const std::string picture = partition_picture(*compile({b.finish("main")}, forced({"sin"})).program);
  EXPECT_THAT(picture, HasSubstr("<svg"));
  EXPECT_THAT(picture, HasSubstr("a&lt;b"));
  EXPECT_THAT(picture, HasSubstr("8 B"));
  EXPECT_THAT(picture, HasSubstr("</svg>"));
}

}  // namespace
}  // namespace npusim
