// Operators that only a plugin can do: from the IR to the run, and every way in which they cannot be.
#include "npusim/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "backends/toy/device.h"
#include "backends/toy/target.h"
#include "compiler/bisect_for.h"
#include "compiler/compile_for.h"
#include "compiler/ir.h"
#include "kernel/kernel.h"
#include "npusim/session.h"
#include "program/program.h"

namespace npusim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Aten : public testing::Test {
 protected:
  void SetUp() override { use_aten_plugin(FAKE_PLUGIN); }
  void TearDown() override { use_aten_plugin(""); }
};

std::string error_of(const std::function<void()>& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

using Attrs = IrBuilder::Json;

// tanh(scale(exp(x), 3, w)) + exp(x)
IrBuilder scaled() {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("e", "exp.default", {"x"}, {2, 3});
  b.node("scaled", "fake_scale.default", {"e", b.weight("w", {2, 3})}, {2, 3}, {{"by", 3}});
  b.node("t", "tanh.default", {"scaled"}, {2, 3});
  b.node("y", "add.Tensor", {"t", "e"}, {2, 3});
  b.output("y");
  return b;
}

const std::vector<float> x_values{-1, -0.5F, 0, 0.25F, 0.5F, 1}, w_values{-9, -3, -2.5F, -4, -5, -8};

std::shared_ptr<const TensorSet> weights() {
  const auto owner = std::make_shared<const std::vector<float>>(w_values);
  return make_tensors({{"w", view_of(*owner, {2, 3})}}, owner);
}

CompileOptions as(const std::string& dtype) {
  CompileOptions options;
  options.dtype = dtype;
  return options;
}

double expected(size_t i) {
  const double e = std::exp(x_values[i]);
  return std::tanh(e * 3 + w_values[i]) + e;
}

void expect_right(const std::shared_ptr<const Program>& program, std::vector<std::shared_ptr<Backend>> devices,
                  double tolerance = 1e-6) {
  Session session(program, {.weights = weights(), .devices = std::move(devices), .threads = 2});
  for (int round = 0; round < 2; ++round) {
    session.set_input(0, 0, view_of(x_values, {2, 3}));
    session.run(0);
    for (size_t i = 0; i < x_values.size(); ++i)
      EXPECT_NEAR(load_double(session.output(0, 0).data(), DType::f32, static_cast<int64_t>(i)), expected(i),
                  tolerance);
  }
}

std::vector<std::string> step_kernels(const Program& program) {
  std::vector<std::string> names;
  for (const StepOverview& step : method_steps(program, program.methods[0].name)) names.push_back(step.kernel);
  return names;
}

TEST_F(Aten, RunsOnTheCpu) {
  const CompileResult result = compile({scaled().finish("main")}, as("float32"));
  EXPECT_THAT(result.notes, ElementsAre("the fake runs aten.fake_scale.default, for which there is no kernel (1 node: "
                                        "scaled)"));
  EXPECT_THAT(step_kernels(*result.program), ElementsAre("exp", "aten.fake_scale.default", "tanh_add"));
  EXPECT_EQ(result.program->devices.size(), 1U);
  expect_right(result.program, {});
}

TEST_F(Aten, TheReferenceRunsItToo) {
  HostTensor x = make_tensor({DType::f32, {2, 3}});
  for (size_t i = 0; i < x_values.size(); ++i)
    store_double(x.data.data(), DType::f32, static_cast<int64_t>(i), x_values[i]);
  const std::vector<HostTensor> outputs = evaluate_ir(scaled().finish("main"), {x}, weights().get()).outputs;
  for (size_t i = 0; i < x_values.size(); ++i)
    EXPECT_NEAR(load_double(outputs[0].data.data(), DType::f32, static_cast<int64_t>(i)), expected(i), 1e-6);
  const Bisection found = bisect(scaled().finish("main"), as("float32"), {x}, weights(), 1e-6);
  EXPECT_EQ(found.parts.size(), 3U);
  EXPECT_EQ(found.culprit, -1);
}

TEST_F(Aten, ProgramsKeepIt) {
  const auto program = compile({scaled().finish("main")}, as("float32")).program;
  const std::string bytes = serialize(*program);
  const auto again = parse_program(bytes, "again");
  EXPECT_EQ(serialize(*again), bytes);
  expect_right(again, {});
  EXPECT_THAT(describe(*program, false), HasSubstr("call"));
  EXPECT_THAT(describe_steps(*program, false), HasSubstr("aten.fake_scale.default on cpu: e (arena"));
  EXPECT_THAT(to_text(program->kernels[1]), HasSubstr("call aten.fake_scale.default of %0[2, 3], %1[2, 3] -> %2[2, 3]\n"
                                                      "  t0\n  real 3\n  t1\n"));
  EXPECT_THAT(describe_partition(*program, false),
              HasSubstr("\nwithout a kernel, run by the ATen plugin\n  aten.fake_scale.default\n    scaled\n"));
  EXPECT_EQ(nlohmann::json::parse(describe_partition(*program, true))["methods"]["main"]["calls"],
            nlohmann::json::parse(R"({"aten.fake_scale.default": ["scaled"]})"));
  const Work work = method_work(*program, "main");
  EXPECT_EQ(work.read_bytes + work.written_bytes, 24U * (2 + 3 + 3));
}

// What a call reads and writes keeps the IR's dtype whatever the program computes in.
TEST_F(Aten, ItsOperandsKeepTheirDtypes) {
  IrBuilder b;
  b.input("x", {2, 4});
  b.node("product", "linear.default", {"x", b.weight("w", {3, 4})}, {2, 3});
  b.node("scaled", "fake_scale.default", {"product"}, {2, 3});
  b.node("again", "linear.default", {"scaled", b.weight("v", {5, 3})}, {2, 5});
  b.node("t", "tanh.default", {"again"}, {2, 5});
  b.node("y", "linear.default", {"t", b.weight("u", {5, 5})}, {2, 5});
  b.output("y");
  for (const std::string dtype : {"float16", "bfloat16", "float32"}) {
    const auto program = compile({b.finish("main")}, as(dtype)).program;
    int calls = 0, narrow = 0;
    for (const Kernel& kernel : program->kernels) {
      calls += kernel.call != nullptr;
      for (const KernelArg& arg : kernel.args) {
        EXPECT_TRUE(!kernel.call || arg.dtype == DType::f32) << dtype;
        narrow += arg.dtype != DType::f32;
      }
    }
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(narrow > 0, dtype != "float32");
  }
}

// Operands of every kind come where the schema has them; a value that is read twice is one argument of the kernel.
TEST_F(Aten, ArgumentsOfEveryKind) {
  IrBuilder b;
  b.input("x", {2});
  b.input("z", {1, 1});
  b.node("flat", "reshape.default", {"x"}, {1, 2}, {{"shape", {1, 2}}});
  IrBuilder::Json attrs = {
      {"flip", true}, {"dtype", "torch.float32"}, {"by", 2.5}, {"device", "cuda:0"}, {"_tensor_list_sizes", {3}}};
  b.node("both", "fake_join.out_of", {"x", "z", "flat"}, {5}, attrs);
  b.output("both");
  nlohmann::json ir = nlohmann::json::parse(b.finish("main").json);
  ir["nodes"][1]["outputs"].push_back({{"name", "both_1"}, {"shape", {3}}, {"dtype", "int64"}});
  ir["graph_outputs"].push_back(
      {{"name", "both_1"}, {"shape", {3}}, {"dtype", "int64"}, {"producer_node", "both"}, {"producer_output_idx", 1}});
  const auto program = compile({{"main", "main", ir.dump()}}, as("float32")).program;
  ASSERT_EQ(program->kernels.size(), 1U);
  EXPECT_EQ(program->kernels[0].args.size(), 4U);
  Session session(program);
  session.set_input(0, "x", view_of(std::vector<float>{1, 2}, {2}));
  session.set_input(0, "z", view_of(std::vector<float>{7}, {1, 1}));
  session.run(0);
  std::vector<double> joined, counts;
  for (int64_t i = 0; i < 5; ++i) joined.push_back(load_double(session.output(0, 0).data(), DType::f32, i));
  for (int64_t i = 0; i < 3; ++i) counts.push_back(load_double(session.output(0, 1).data(), DType::i64, i));
  EXPECT_THAT(joined, ElementsAre(2.5, 5, 17.5, 2.5, 5));
  EXPECT_THAT(counts, ElementsAre(2, 1, 2));
}

// On a device whose memory the host does not reach it is a segment of the CPU's.
TEST_F(Aten, OtherDevicesLeaveItToTheCpu) {
  const CompileResult result = compile_for(toy::target(), {scaled().finish("main")}, as("float32"));
  EXPECT_EQ(result.program->devices.size(), 2U);
  EXPECT_THAT(step_kernels(*result.program),
              ElementsAre("exp", "transfer", "aten.fake_scale.default", "transfer", "tanh_add"));
  EXPECT_THAT(describe_partition(*result.program, false),
              HasSubstr("aten.fake_scale.default: it has no kernel: ATen runs it\n    scaled\n"));
  expect_right(result.program, {toy::open_device(0), open_backend("cpu")}, 1e-5);
  CompileOptions alone = as("float32");
  alone.fallback = false;
  EXPECT_EQ(error_of([&] { compile_for(toy::target(), {scaled().finish("main")}, alone); }, ErrorKind::unsupported),
            "node scaled: it has no kernel: ATen runs it");
  CompileOptions planned = as("float32");
  planned.plan.json = R"({"methods": {"main": {"cpu": {"e": "because"}}}})";
  EXPECT_EQ(error_of([&] { compile_for(toy::target(), {scaled().finish("main")}, planned); }, ErrorKind::unsupported),
            "node scaled: it has no kernel: ATen runs it");
  planned.plan.json = partition_plan(*result.program);
  EXPECT_EQ(serialize(*compile_for(toy::target(), {scaled().finish("main")}, planned).program),
            serialize(*result.program));
  // A file may say otherwise.
  Program wrong = *compile({scaled().finish("main")}, as("float32")).program;
  EXPECT_EQ(
      error_of(
          [&] {
            Session session(std::make_shared<const Program>(wrong),
                            {.weights = weights(), .devices = {toy::open_device(0)}});
          },
          ErrorKind::device),
      "node 'scaled': aten.fake_scale.default is done by the host, which does not reach the memory of device cpu");
}

// What needs weights alone is done once, at load.
TEST_F(Aten, OfWeightsItIsARecipe) {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("scaled", "fake_scale.default", {b.weight("w", {2, 3})}, {2, 3});
  b.node("y", "add.Tensor", {"x", "scaled"}, {2, 3});
  b.output("y");
  const auto program = compile({b.finish("main")}, as("float32")).program;
  EXPECT_EQ(program->recipes.steps.size(), 1U);
  Session session(program, {.weights = weights()});
  session.set_input(0, 0, view_of(x_values, {2, 3}));
  session.run(0);
  EXPECT_EQ(load_double(session.output(0, 0).data(), DType::f32, 1), -6.5);
}

// A result is memory of its own: a write to it is not seen through the operand.
TEST_F(Aten, ResultsAreMemoryOfTheirOwn) {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("e", "exp.default", {"x"}, {2, 3});
  b.node("scaled", "fake_scale.default", {"e"}, {2, 3}, {{"by", 1}});
  b.node("written", "mul_.Scalar", {"scaled"}, {2, 3}, {{"other", 5}});
  b.node("y", "sub.Tensor", {"scaled", "e"}, {2, 3});
  b.output("y");
  Session session(compile({b.finish("main")}, as("float32")).program);
  session.run(0);
  EXPECT_EQ(load_double(session.output(0, 0).data(), DType::f32, 0), 4);
}

TEST_F(Aten, ErrorsOfARun) {
  IrBuilder b;
  b.input("x", {2, 3});
  b.node("scaled", "fake_scale.default", {"x"}, {2, 3});
  b.output("scaled");
  Session session(compile({b.finish("main")}, as("float32")).program);
  std::vector<float> x = x_values;
  x[4] = -1000;
  session.set_input(0, 0, view_of(x, {2, 3}));
  EXPECT_EQ(error_of([&] { session.run(0); }, ErrorKind::bad_input), "node scaled: the fake: met -1000");
  session.set_input(0, 0, view_of(x_values, {2, 3}));
  session.run(0);
  EXPECT_EQ(load_double(session.output(0, 0).data(), DType::f32, 5), 2);
  EXPECT_EQ(session.step_info(0, size_t{0}).how, "the fake");
  session.run_step(0, 0);
}

// One node, and what compile() says of it.
std::string refusal(const std::string& op, const Attrs& attrs = Attrs::object(), const std::string& dtype = "float32") {
  IrBuilder b;
  b.input("x", {2, 3}, dtype);
  b.node("y", op, {"x"}, {2, 3}, attrs, dtype);
  b.output("y");
  return error_of([&] { compile({b.finish("main")}, as("float32")); }, ErrorKind::unsupported);
}

TEST_F(Aten, WhatItCannotDoIsRefusedAtCompileTime) {
  EXPECT_EQ(refusal("fake_scale.default"), "");
  EXPECT_EQ(refusal("fake_scale.default", {{"by", 0}}),
            "main: node 'y' (aten.fake_scale.default): the fake: does not scale by 0");
  EXPECT_EQ(refusal("fake_scale.default", {}, "int64"),
            "main: node 'y' (aten.fake_scale.default): the fake: takes float32, not int64");
  EXPECT_EQ(refusal("fake_wonder.default"),
            "main: op aten.fake_wonder.default is not supported (1 node: y); the fake: no such operator");
  EXPECT_EQ(
      refusal("fake_write_.default"),
      "main: op aten.fake_write_.default is not supported (1 node: y); the fake could run it, but argument 'x' is "
      "written");
  EXPECT_EQ(refusal("fake_view.default"),
            "main: op aten.fake_view.default is not supported (1 node: y); the fake could run it, but argument 'x' is "
            "returned");
  EXPECT_THAT(refusal("fake_join.out_of", {{"_tensor_list_sizes", {1}}}),
              HasSubstr("declares 1 results, and a call has them all: 2"));
}

TEST_F(Aten, WithoutAPlugin) {
  const auto program = compile({scaled().finish("main")}, as("float32")).program;
  const auto why = [&](const std::string& path) {
    use_aten_plugin(path);
    EXPECT_FALSE(aten_plugin().usable);
    const std::string compiled = refusal("fake_scale.default");
    const std::string of = "main: op aten.fake_scale.default is not supported (1 node: y)\nmain: ";
    EXPECT_TRUE(compiled.starts_with(of)) << compiled;
    const std::string opened = error_of([&] { Session session(program, {.weights = weights()}); }, ErrorKind::device);
    EXPECT_EQ(opened, "node 'scaled': aten.fake_scale.default has no kernel, and " + compiled.substr(of.size()));
    return compiled.substr(of.size());
  };
  EXPECT_THAT(why("/nowhere/plugin.so"), HasSubstr("there is no plugin that could ask ATen: /nowhere/plugin.so: "));
  EXPECT_EQ(why(NO_PLUGIN), "there is no plugin that could ask ATen: " NO_PLUGIN
                            ": is no plugin: it has no function npusim_aten_plugin");
  EXPECT_EQ(why(NEWER_PLUGIN),
            "there is no plugin that could ask ATen: " NEWER_PLUGIN ": expected a plugin of version 1, found 99");
  setenv("NPUSIM_ATEN", "/elsewhere/plugin.so", 1);
  EXPECT_THAT(why(""), HasSubstr("/elsewhere/plugin.so"));
  setenv("NPUSIM_ATEN", FAKE_PLUGIN, 1);
  use_aten_plugin("");
  EXPECT_EQ(aten_plugin().description, "the fake");
  unsetenv("NPUSIM_ATEN");
  EXPECT_THAT(why(""), HasSubstr("libnpusim_aten.so does not exist"));
  // A name without a folder is one of the folder that is worked in.
  const auto before = std::filesystem::current_path();
  const auto folder = std::filesystem::temp_directory_path() / ("npusim_aten_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(FAKE_PLUGIN, folder / "here.so");
  std::filesystem::current_path(folder);
  use_aten_plugin("here.so");
  EXPECT_EQ(aten_plugin().description, "the fake");
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
  // What is open stays so.
  use_aten_plugin(FAKE_PLUGIN);
  Session session(program, {.weights = weights()});
  use_aten_plugin("/nowhere/plugin.so");
  session.run(0);
}

TEST(AtenKernel, IsChecked) {
  Kernel good;
  good.args = {{DType::f32, 6, false, -1}, {DType::f32, 2, true, -1}};
  const auto problems = [&](const std::function<void(Kernel&, Call&)>& damage) {
    Kernel kernel = good;
    Call call{"aten.x",
              {{.kind = CallKind::tensor, .tensors = {0}}, {.kind = CallKind::integer, .integers = {1}}},
              {{0, {2, 3}}},
              {{1, {2}}}};
    damage(kernel, call);
    kernel.call = std::make_shared<const Call>(std::move(call));
    const std::vector<std::string> found = check_kernel(kernel);
    return found.empty() ? "" : found[0];
  };
  EXPECT_EQ(problems([](Kernel&, Call&) {}), "");
  EXPECT_EQ(problems([](Kernel& k, Call&) { k.space = {1}; }), "a call computes something itself");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.op = ""; }), "a call of no operator");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.operands[0].arg = 1; }), "call: %1 is no operand");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.results[0].arg = 7; }), "call: %7 is no result");
  EXPECT_EQ(problems([](Kernel& k, Call&) { k.args[1].updates = 0, k.args[1].elements = 6; }), "call: %1 is no result");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.operands[0].shape = {2, 4}; }), "call: %0 of 6 elements as [2, 4]");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.operands[0].shape = {-2, -3}; }), "call: %0 of 6 elements as [-2, -3]");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.results.push_back(c.results[0]); }), "call: %1 is two results");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.results.clear(); }), "call: an argument that it does not name");
  const std::string kind = "call: an argument that is not what its kind says";
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.arguments[1].integers.clear(); }), kind);
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.arguments[1].reals = {1}; }), kind);
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.arguments[1].kind = static_cast<CallKind>(40); }), kind);
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.arguments[0].tensors = {1}; }), "call: there is no operand 1");
  EXPECT_EQ(problems([](Kernel&, Call& c) { c.arguments[0].tensors = {-1}; }), "call: there is no operand -1");
  EXPECT_EQ(problems([](Kernel&, Call& c) {
              c.arguments[0] = {.kind = CallKind::tensors, .tensors = {-1, 0, 0}};
            }),
            "");
}

}  // namespace
}  // namespace npusim
