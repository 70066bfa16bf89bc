// What the emulator's target writes into programs, and what its device does with code that is not as it should be.
#include <gtest/gtest.h>

#include <set>

#include "backends/emulator/device.h"
#include "backends/emulator/target.h"
#include "base/error.h"
#include "compiler/compile_for.h"
#include "passes/run_graph.h"
#include "program/program.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;

RunOptions on_emulator(int order = 0) {
  RunOptions options;
  options.target = &emulator::target();
  options.devices = {emulator::open_device(order)};
  return options;
}

// Small kernels, one that is too large for a group, and small ones again.
const char* const mixed =
    "input %x: float32[4, 40]\nweight %w: float32[40, 40] = \"w\"\nweight %v: float32[40, 600] = \"v\"\n"
    "weight %u: float32[600, 3] = \"u\"\n"
    "%a: float32[4, 40] = aten.matmul.default(%x, %w)\n"
    "%b: float32[4, 40] = aten.softmax.int(%a, dim=1)\n"
    "%c: float32[4, 40] = aten.matmul.default(%b, %w)\n"
    "%d: float32[4, 600] = aten.matmul.default(%c, %v)\n"
    "%e: float32[4, 600] = aten.softmax.int(%d, dim=1)\n"
    "%f: float32[4, 3] = aten.matmul.default(%e, %u)\n"
    "%g: float32[4, 3] = aten.cumsum.default(%f, dim=1)\noutput %g\noutput %a\n";

std::string text_of(const Code& code) { return {reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size()}; }

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(EmulatorPlan, SmallKernelsShareALaunch) {
  const GraphRun run = run_graph(mixed, on_emulator());
  const Method& method = run.method();
  ASSERT_EQ(method.steps.size(), 7U);
  ASSERT_EQ(method.launches.size(), 3U);
  EXPECT_EQ(method.launches[0].count, 3);
  EXPECT_EQ(method.launches[1].count, 1);
  EXPECT_EQ(method.launches[2].count, 3);
  for (const size_t group : {0, 2}) {
    EXPECT_EQ(method.launches[group].grid, (std::array<uint32_t, 3>{1, 1, 1}));
    EXPECT_EQ(method.launches[group].symbol.substr(0, 6), "group_");
  }
  EXPECT_GT(method.launches[1].grid[0], 4U);
  // b, e and f live in launches, and the block has room for them: they are no arguments.
  std::set<std::string> local;
  for (size_t i = 0; i < run.program->buffers.size(); ++i) {
    if (run.program->buffers[i].kind != BufferKind::local) continue;
    local.insert(run.program->buffers[i].name);
    for (const Launch& launch : method.launches)
      EXPECT_EQ(std::count(launch.args.begin(), launch.args.end(), static_cast<int32_t>(i)), 0);
  }
  EXPECT_EQ(local, (std::set<std::string>{"b", "e", "f"}));
  EXPECT_EQ(method.arenas[0].workspace_bytes, 9600U + 64);
}

// Values that a block has no room for are the workspace's, which the launch gets as an argument.
TEST(EmulatorPlan, WhatABlockCannotHoldIsAnArgument) {
  RunOptions unfused = on_emulator();
  unfused.disabled = {"all"};
  const GraphRun run = run_graph(
      "input %x: float32[8, 100]\n"
      "%a: float32[8, 100] = aten.softmax.int(%x, dim=1)\n%b: float32[8, 100] = aten.cumsum.default(%a, dim=1)\n"
      "%c: float32[8, 100] = aten.softmax.int(%b, dim=1)\n%d: float32[8, 100] = aten.cumsum.default(%c, dim=1)\n"
      "%e: float32[8, 100] = aten.softmax.int(%d, dim=1)\n%f: float32[8, 100] = aten.cumsum.default(%e, dim=1)\n"
      "%g: float32[8, 100] = aten.softmax.int(%f, dim=1)\n%y: float32[8, 100] = aten.cumsum.default(%g, dim=1)\n"
      "output %y\n",
      unfused);
  ASSERT_EQ(run.method().launches.size(), 1U);
  size_t local = 0, given = 0;
  for (const Buffer& b : run.program->buffers) local += b.kind == BufferKind::local;
  for (int32_t id : run.method().launches[0].args)
    given += run.program->buffers[static_cast<size_t>(id)].kind == BufferKind::local;
  EXPECT_EQ(local, 7U);
  EXPECT_EQ(given, 2U);
}

// Equal kernels and equal groups are printed once; every symbol is in the text.
TEST(EmulatorPlan, OneLibraryWithoutRepetition) {
  const GraphRun run = run_graph(
      "input %x: float32[70, 40]\nweight %w: float32[40, 40] = \"w\"\n"
      "%a: float32[70, 40] = aten.matmul.default(%x, %w)\n%b: float32[70, 40] = aten.matmul.default(%a, %w)\n"
      "%c: float32[70, 40] = aten.matmul.default(%b, %w)\noutput %c\n",
      on_emulator());
  ASSERT_EQ(run.method().launches.size(), 3U);
  ASSERT_EQ(run.program->code.size(), 1U);
  EXPECT_EQ(run.program->code[0][0].format, "msl");
  const std::string text = text_of(run.program->code[0][0]);
  EXPECT_EQ(count(text, "kernel void "), 1U);
  for (const Launch& launch : run.method().launches) EXPECT_EQ(count(text, "kernel void " + launch.symbol + "("), 1U);
}

// Recipes are launches too: here a folded batch norm.
TEST(EmulatorPlan, RecipesAreLaunched) {
  const GraphRun run = run_graph(
      "input %x: float32[1, 3, 6, 6]\nweight %w: float32[4, 3, 3, 3] = \"w\"\nweight %g: float32[4] = \"g\"\n"
      "weight %b: float32[4] = \"b\"\nweight %m: float32[4] = \"m\"\nweight %var: float32[4] = \"var\"\n"
      "%c: float32[1, 4, 6, 6] = aten.conv2d.default(%x, %w, None, stride=[1, 1], padding=[1, 1])\n"
      "%n: float32[1, 4, 6, 6] = aten.batch_norm.default(%c, %g, %b, %m, %var, training=false, momentum=0.1, "
      "eps=0.00001, cudnn_enabled=true)\noutput %n\n",
      on_emulator());
  EXPECT_GT(run.program->recipes.steps.size(), 0U);
  EXPECT_EQ(run.program->recipes.launches.size(), run.program->recipes.steps.size());
}

// What plan wrote is proven: every launch covers its steps and has all that they touch, and nothing less passes.
TEST(EmulatorPlan, DamagedLaunchesAreFound) {
  const Program sound = *run_graph(mixed, on_emulator()).program;
  EXPECT_EQ(check_program(sound), std::vector<std::string>{});
  const auto problem = [&](const std::function<void(std::vector<Launch>&)>& damage) {
    Program program = sound;
    damage(program.methods[0].launches);
    const std::vector<std::string> problems = check_program(program);
    return problems.empty() ? "none" : problems[0].substr(problems[0].rfind(": ") + 2);
  };
  for (size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(problem([&](std::vector<Launch>& l) { l.erase(l.begin() + static_cast<ptrdiff_t>(n)); }),
              "no launch executes it");
    for (size_t a = 0; a < sound.methods[0].launches[n].args.size(); ++a)
      EXPECT_NE(problem([&](std::vector<Launch>& l) {
                  l[n].args.erase(l[n].args.begin() + static_cast<ptrdiff_t>(a));
                }).find("of its steps is no argument"),
                std::string::npos);
  }
  EXPECT_EQ(problem([](std::vector<Launch>& l) { --l[0].count; }).substr(0, 4), "its ");
  EXPECT_EQ(problem([](std::vector<Launch>& l) { std::swap(l[0], l[1]); }).substr(0, 14), "expected steps");
}

// Also where they are all there is.
TEST(EmulatorPlan, RecipesAloneAreLaunched) {
  const GraphRun run = run_graph(
      "weight %w: float32[4, 3] = \"w\"\n%y: float32[4, 3] = aten.exp.default(%w)\noutput %y\n", on_emulator());
  EXPECT_EQ(run.steps(), 0U);
  EXPECT_EQ(run.program->recipes.launches.size(), 1U);
}

// Attention that one block can do is one launch, with its scores in the block's memory; larger ones stay three kernels.
TEST(EmulatorPlan, AttentionIsFusedWhereItFits) {
  const auto attention = [](int queries) {
    const std::string q = std::to_string(queries);
    return run_graph("input %q: float32[1, 2, " + q +
                         ", 16]\ninput %k: float32[1, 2, 40, 16]\n"
                         "input %v: float32[1, 2, 40, 16]\n%y: float32[1, 2, " +
                         q + ", 16] = aten.scaled_dot_product_attention.default(%q, %k, %v, None)\noutput %y\n",
                     on_emulator());
  };
  const GraphRun small = attention(4), large = attention(64);
  EXPECT_EQ(small.fusions.at("attention"), 1);
  EXPECT_EQ(small.steps(), 1U);
  EXPECT_EQ(small.method().launches[0].symbol.substr(0, 6), "group_");
  EXPECT_FALSE(large.fusions.contains("attention"));
  EXPECT_EQ(large.steps(), 3U);
}

// What no launch computes in another order of threads and blocks is computed the same, bit by bit.
TEST(EmulatorOrder, NothingDependsOnIt) {
  const GraphRun forward = run_graph(mixed, on_emulator(0));
  for (const int order : {1, 2}) {
    const GraphRun other = run_graph(mixed, on_emulator(order));
    for (size_t i = 0; i < forward.outputs.size(); ++i)
      EXPECT_TRUE(other.outputs[i].data == forward.outputs[i].data) << order;
  }
}

TEST(EmulatorPlan, WhatMetalLacksIsRefusedByName) {
  const std::string ir = R"({
    "graph_inputs": [{"name": "x", "shape": [4], "dtype": "float64"}],
    "graph_outputs": [{"name": "y", "shape": [4], "dtype": "float64"}], "weights": [],
    "nodes": [{"name": "y", "op_type": "aten.exp.default", "attrs": {},
      "inputs": [{"name": "x", "shape": [4], "dtype": "float64", "producer_node": "x", "producer_output_idx": 0}],
      "outputs": [{"name": "y", "shape": [4], "dtype": "float64"}]}]})";
  try {
    compile_for(emulator::target(), {{.path = "doubles", .json = ir}}, {.fallback = false});
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(error.what(), "node y: MSL has no type for float64 (argument %0)");
  }
}

// What is computed at load is printed too.
TEST(EmulatorPlan, RecipesAreRefusedByName) {
  const std::string ir = R"({
    "graph_inputs": [], "graph_outputs": [{"name": "y", "shape": [4], "dtype": "float64"}],
    "weights": [{"name": "w", "shape": [4], "dtype": "float64"}],
    "nodes": [{"name": "y", "op_type": "aten.exp.default", "attrs": {},
      "inputs": [{"name": "w", "shape": [4], "dtype": "float64"}],
      "outputs": [{"name": "y", "shape": [4], "dtype": "float64"}]}]})";
  try {
    compile_for(emulator::target(), {{.path = "doubles", .json = ir}}, {.fallback = false});
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(error.what(), "node y: MSL has no type for float64 (argument %0)");
  }
}

const char* const chain =
    "input %x: float32[3, 8]\n%a: float32[3, 8] = aten.softmax.int(%x, dim=1)\n"
    "%b: float32[3, 8] = aten.cumsum.default(%a, dim=1)\noutput %b\n";

std::string open_error(const std::function<void(Program&)>& damage) {
  Program program = *run_graph(chain, on_emulator()).program;
  damage(program);
  EXPECT_EQ(check_program(program), std::vector<std::string>{});
  try {
    Session(std::make_shared<const Program>(std::move(program)),
            {.weights = nullptr, .devices = {emulator::open_device(0)}, .threads = 1});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "none";
}

void set_text(Code& code, const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  code.bytes.assign(bytes, bytes + text.size());
}

// check_program does not read code: the device says what is wrong with it, before anything runs.
TEST(EmulatorDevice, DamagedCodeIsAnError) {
  EXPECT_EQ(open_error([](Program&) {}), "none");
  const std::string broken = open_error([](Program& p) {
    std::string text = text_of(p.code[0][0]);
    text.replace(text.find("kernel void"), 6, "kernal");
    set_text(p.code[0][0], text);
  });
  EXPECT_EQ(broken.substr(0, 33), "emulator: code 0 does not compile") << broken;
  EXPECT_NE(broken.find("kernal"), std::string::npos) << broken;
  EXPECT_EQ(open_error([](Program& p) { p.methods[0].launches[0].symbol = "other"; }),
            "emulator: there is no function 'other' in code 0");
  EXPECT_EQ(open_error([](Program& p) { set_text(p.code[0][0], ""); }).substr(0, 30), "emulator: there is no function");
  EXPECT_EQ(open_error([](Program& p) { p.code[0][0].format = "cubin"; }),
            "emulator: expected code 0 as msl, found cubin");
  const std::string args = open_error([](Program& p) {
    std::vector<int32_t>& args = p.methods[0].launches[0].args;
    args.push_back(args[0]);
  });
  EXPECT_NE(args.find("takes 2 pointers, its launch has 3"), std::string::npos) << args;
  const std::string many = open_error([](Program& p) { p.methods[0].launches[0].args.resize(40, 0); });
  EXPECT_NE(many.find("has 40 pointers, at most 31 are bound"), std::string::npos) << many;
  EXPECT_EQ(open_error([](Program& p) { p.methods[0].launches.clear(); }),
            "emulator: the program was not compiled for this device: it has no launches for it");
}

// A wrong size of the grid makes the code reach behind its memory: found, reported, and the next session works.
TEST(EmulatorDevice, CodeThatLeavesItsMemoryIsAnError) {
  Program program = *run_graph("input %x: float32[300, 512]\n%y: float32[300, 512] = aten.exp.default(%x)\noutput %y\n",
                               on_emulator())
                         .program;
  std::string text = text_of(program.code[0][0]);
  const size_t at = text.find("if (point >= 153600)");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 20, "if (point >= 900000)");
  set_text(program.code[0][0], text);
  program.methods[0].launches[0].grid[0] *= 4;
  const auto device = emulator::open_device(0);
  Session session(std::make_shared<const Program>(program), {.weights = nullptr, .devices = {device}, .threads = 1});
  for (int repeat = 0; repeat < 2; ++repeat) try {
      session.run(0);
      ADD_FAILURE() << "it ran";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      EXPECT_NE(std::string(error.what()).find("out-of-bounds buffer access"), std::string::npos) << error.what();
    }
  RunOptions again = on_emulator();
  again.devices = {device};
  run_graph(chain, again);
}

// The text that is stored is what runs: a program from its file, and one whose text was changed.
TEST(EmulatorDevice, RunsWhatTheFileHolds) {
  const Program made = *run_graph(chain, on_emulator()).program;
  Program read = deserialize(serialize(made), "made");
  std::string text = text_of(read.code[0][0]);
  const size_t at = text.rfind("out0[");
  text.replace(text.find(" = ", at), 3, " = 2 * ");
  set_text(read.code[0][0], text);
  const auto run = [](const Program& program) {
    Session session(std::make_shared<const Program>(program),
                    {.weights = nullptr, .devices = {emulator::open_device(0)}, .threads = 1});
    std::vector<float> ones(24, 1), found(24);
    session.bind_input(0, 0, std::as_bytes(std::span(ones)));
    session.bind_output(0, 0, std::as_writable_bytes(std::span(found)));
    session.run(0);
    return found;
  };
  const std::vector<float> once = run(made), twice = run(read);
  EXPECT_FLOAT_EQ(once[7], 1);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FLOAT_EQ(twice[i], 2 * once[i]);
}

}  // namespace
}  // namespace npusim
