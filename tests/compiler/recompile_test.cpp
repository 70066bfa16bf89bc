// Programs made anew from their steps: the same again, and nothing of a file's launches.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/ir.h"
#include "program/program.h"

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

TEST(Recompile, UnknownTargetsAreNamed) {
  const auto program = compile({{"main", seeds + "convolution.json"}}).program;
  EXPECT_THROW(recompile(*program, "nothing"), Error);
  EXPECT_EQ(program_info(*recompile(*program, "null")).targets, std::vector<std::string>{"null"});
}

}  // namespace
}  // namespace npusim
