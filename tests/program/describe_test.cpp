// Reports on programs: what they say, and how much work they count.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "npusim/program.h"
#include "program/sample.h"
#include "program/work.h"

namespace npusim {
namespace {

TEST(Describe, Json) {
  const auto json = nlohmann::json::parse(describe(sample_program(), true));
  EXPECT_EQ(json["target"], "cpu");
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["weights_bytes"], 128);
  const auto& decode = json["methods"]["decode"];
  EXPECT_EQ(decode["nodes"], 5);
  EXPECT_EQ(decode["kernels"], 3);
  EXPECT_EQ(decode["steps"], 3);
  EXPECT_EQ(decode["weights_bytes"], 128);  // through the recipe
  EXPECT_EQ(decode["state_bytes"], 128);
  EXPECT_EQ(decode["arena_bytes"], 96);
  EXPECT_EQ(decode["arena_lower_bound_bytes"], 32);
  EXPECT_EQ(decode["fusions"]["attention"], 1);
  EXPECT_EQ(decode["inputs"][2]["state"], true);
  EXPECT_EQ(json["methods"]["prefill"]["weights_bytes"], 0);
  EXPECT_EQ(json["kernels"][2]["steps"], 2);
}

// What another method's recipe makes of a weight is none of a method's that reads the weight itself.
TEST(Describe, WeightsOfAMethod) {
  Program p = sample_program();
  const TensorType wide{DType::f32, {16, 4}};
  for (const BufferKind kind : {BufferKind::weight, BufferKind::prepared})
    p.buffers.push_back({.name = kind == BufferKind::weight ? "v" : "v_w",
                         .kind = kind,
                         .type = wide,
                         .stored = {},
                         .fqn = kind == BufferKind::weight ? "layer.v" : "",
                         .tied = {}});
  const auto both = static_cast<int32_t>(p.buffers.size()) - 1;
  KernelBuilder k(wide.shape);
  const Coord at[] = {k.dim(0), k.dim(1)};
  const Ex v = k.load(k.input(wide), at);
  k.input(p.buffers[3].type);
  k.store(k.output(wide), at, v);
  p.kernels.push_back(k.finish("both"));
  p.recipes.steps.push_back({static_cast<int32_t>(p.kernels.size()) - 1, {both - 1, 3, both}, 0, {1}});
  const auto weights = [&](const std::string& method) {
    const auto json = nlohmann::json::parse(describe(p, true))["methods"][method];
    EXPECT_FALSE(json.contains("weights_bytes_at_most"));
    return json["weights_bytes"].get<int64_t>();
  };
  EXPECT_EQ(weights("decode"), 128);
  p.methods[0].outputs.push_back({"v_w", wide, both});
  EXPECT_EQ(weights("prefill"), 128 + 256);
  EXPECT_EQ(weights("decode"), 128);
}

// Each method's recipes are all before its own: after a million they are no longer followed.
TEST(Describe, RecipesBeyondCounting) {
  Program p = sample_program();
  p.recipes.steps.assign(500'001, Step{p.recipes.steps[0]});
  const auto methods = nlohmann::json::parse(describe(p, true))["methods"];
  EXPECT_FALSE(methods["prefill"].contains("weights_bytes_at_most"));
  EXPECT_EQ(methods["decode"]["weights_bytes_at_most"], true);
  EXPECT_EQ(methods["decode"]["weights_bytes"], 128);
  EXPECT_NE(describe(p, false).find("weights      at most 128 bytes"), std::string::npos);
}

TEST(Describe, TextNamesEverything) {
  const std::string text = describe(sample_program(), false);
  for (const char* part : {"program    sample", "target     cpu", "method prefill", "method decode",
                           "float32[8, 4]  (state)", "5 nodes -> 3 kernels -> 3 steps", "fusions      attention 1",
                           "filled_cache             float32[8, 4]  (state cache)", "attention  [2, 4]",
                           "arena        96 bytes (lower bound 32 bytes)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Describe, DevicesTransfersAndLaunches) {
  const auto json = nlohmann::json::parse(describe(split_program(), true));
  EXPECT_EQ(json["devices"][1]["target"], "toy");
  EXPECT_EQ(json["code"][0]["format"], "toy");
  const auto& decode = json["methods"]["decode"];
  EXPECT_EQ(decode["launches"], 1);
  EXPECT_EQ(decode["transfers"], 2);
  EXPECT_EQ(decode["transfer_bytes"], 64);
  const std::string text = describe(split_program(), false);
  for (const char* part : {"device 1   toy", "code       toy", "launches     1", "transfers    2 of 64 bytes"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// docs/design.md shows a program step by step; what it shows is so.
TEST(Describe, TheDocumentedStepsAreSo) {
  const std::string page = read_file(NPUSIM_SOURCE_DIR "/docs/design.md"),
                    text = describe_steps(split_program(), false);
  EXPECT_NE(page.find("```\n" + text + "```\n"), std::string::npos) << "docs/design.md does not show\n" << text;
}

TEST(Describe, StepsAsJson) {
  const auto json = nlohmann::json::parse(describe_steps(split_program(), true));
  EXPECT_EQ(json["recipes"]["steps"].size(), 1u);
  EXPECT_EQ(json["buffers"][3]["weight"], "layer.weight");
  EXPECT_EQ(json["buffers"][6]["offset"], 64);
  const auto& decode = json["methods"]["decode"];
  EXPECT_TRUE(decode["steps"][2]["kernel"].is_null());
  EXPECT_EQ(decode["steps"][0]["origins"][0]["node"], "index_copy");
  EXPECT_EQ(decode["launches"][0]["block"][0], 32);
  EXPECT_EQ(decode["launches"][0]["args"].back(), -1);
  EXPECT_EQ(decode["declined"], "a step of another device");
  EXPECT_FALSE(json["methods"]["prefill"].contains("declined"));
}

TEST(Describe, Methods) {
  const Program program = sample_program();
  EXPECT_EQ(method_names(program), (std::vector<std::string>{"prefill", "decode"}));
  EXPECT_EQ(method_inputs(program, "decode")[1].name, "position");
  EXPECT_EQ(to_string(method_outputs(program, "decode")[0].type), "float32[2, 4]");
  EXPECT_THROW(method_inputs(program, "main"), Error);
}

TEST(Work, Attention) {
  const Work work = kernel_work(attention_kernel());
  EXPECT_EQ(work.flops, 2u * 2 * 4 * 8 + 2u * 2 * 8 * 4);
  EXPECT_EQ(work.read_bytes, 4u * (8 + 32 + 32));
  EXPECT_EQ(work.written_bytes, 4u * 8);
}

TEST(Work, OnlyTheRowThatAnUpdateWrites) {
  const Work work = kernel_work(update_kernel({DType::f32, {8, 4}}));
  EXPECT_EQ(work.read_bytes, 4u * 4 + 8);
  EXPECT_EQ(work.written_bytes, 4u * 4);
}

TEST(Work, GatheredRows) {
  KernelBuilder k({3, 16});
  const int table = k.input({DType::f32, {1000, 16}}), ids = k.input({DType::i64, {3}});
  const Coord id_at[] = {k.dim(0)};
  const Ex id = k.load(ids, id_at);
  const Coord at[] = {Coord(id), Coord(k.dim(1))};
  const Ex x = k.load(table, at);
  k.store(k.output({DType::f32, {3, 16}}), x);
  EXPECT_EQ(kernel_work(k.finish("embedding")).read_bytes, 3u * 16 * 4 + 3 * 8);
}

}  // namespace
}  // namespace npusim
