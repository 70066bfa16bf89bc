// Programs made anew from their steps: the same again, and nothing of a file's launches.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "compiler/ir.h"
#include "kernel/builder.h"
#include "npusim/session.h"
#include "program/program.h"
#include "program/sample.h"

namespace npusim {
namespace {

const std::string seeds = NPUSIM_SOURCE_DIR "/tests/fuzz/seeds/ir/";

void expect_the_same(const std::vector<MethodSource>& sources, const CompileOptions& options) {
  const auto program = compile(sources, options).program;
  const auto again = recompile(*program);
  EXPECT_EQ(describe(*again, true), describe(*program, true));
  EXPECT_EQ(describe_steps(*again, true), describe_steps(*program, true));
  EXPECT_EQ(serialize(*again), serialize(*program));
}

TEST(Recompile, MakesTheSameAgain) {
  for (const char* name : {"transformer", "convolution", "mixed"})
    for (const char* target : {"cpu", "null"})
      for (const bool strict : {false, true}) {
        SCOPED_TRACE(fmt::format("{} for {}, strict {}", name, target, strict));
        CompileOptions options;
        options.target = target;
        options.strict = strict;
        expect_the_same({{"main", seeds + name + ".json"}}, options);
      }
}

TEST(Recompile, MethodsOfText) {
  for (const Mask mask : {Mask::added, Mask::booleans, Mask::ones, Mask::none})
    for (const bool sum : {false, true}) {
      SCOPED_TRACE(fmt::format("mask {}, sum {}", static_cast<int>(mask), sum));
      CompileOptions options;
      options.text = true;
      expect_the_same({text_ir(mask, 8, 0, sum).finish("read"), text_ir(mask, 1, 16, sum).finish("decode")}, options);
    }
}

TEST(Recompile, WhatTheCpuDoesStaysThere) {
  CompileOptions options;
  options.target = "null";
  options.force_cpu = {"relu"};
  const std::vector<MethodSource> sources = {{"main", seeds + "convolution.json"}};
  ASSERT_EQ(compile(sources, options).program->devices.size(), 2u);
  expect_the_same(sources, options);
}

// A step that writes a part of what it reads leaves the rest, whether or not its kernel says that it updates it.
TEST(Recompile, PartsOfWhatIsRead) {
  for (const bool says : {false, true}) {
    Program p = call_program();
    p.buffers[0].type.shape = p.buffers[1].type.shape = p.methods[0].inputs[0].type.shape =
        p.methods[0].outputs[0].type.shape = {6};
    KernelBuilder k({3});
    const Ex x = k.load_flat(k.input({DType::f32, {3}}));
    k.store_flat(k.output({DType::f32, {3}}), x + k.number(1));
    Kernel low = k.finish("half"), high = low;
    for (Kernel* half : {&low, &high}) half->args[0].elements = half->args[1].elements = 6;
    high.accesses[0].offset = high.stores[0].access.offset = 3;
    if (says) high.args[1].updates = 0;
    p.kernels = {low, high};
    p.methods[0].steps = {{0, {0, 1}, 0, {0}}, {1, {1, 1}, 0, {0}}};
    const std::vector<float> given = {1, 2, 3, 4, 5, 6};
    for (const auto& program : {std::make_shared<const Program>(p), recompile(p)}) {
      Session session(program);
      session.set_input("main", 0, std::as_bytes(std::span(given)));
      session.run("main");
      std::vector<float> found(6);
      std::memcpy(found.data(), session.output("main", 0).data(), sizeof(float) * found.size());
      EXPECT_EQ(found, (std::vector<float>{2, 3, 4, 1, 1, 1})) << says;
    }
  }
}

TEST(Recompile, UnknownTargetsAreNamed) {
  const auto program = compile({{"main", seeds + "convolution.json"}}).program;
  EXPECT_THROW(recompile(*program, "nothing"), Error);
  EXPECT_EQ(program_info(*recompile(*program, "null")).targets, std::vector<std::string>{"null"});
}

}  // namespace
}  // namespace npusim
