// What a program needs is known, and refused, before anything of it is there.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/machine_memory.h"
#include "graph/ir.h"
#include "npusim/compiler.h"
#include "npusim/session.h"
#include "program/program.h"
#include "threads/programs.h"

namespace npusim {
namespace {

using test::node;
using test::read;
using test::tensor;

// relu(expand(x, n)), or its sum.
MethodSource expanded(int64_t n, bool summed) {
  const std::string shape = fmt::format("[{}]", n);
  test::Ir ir;
  ir.inputs = {tensor("x", "[1]")};
  ir.nodes = {node("e", "aten.expand.default", {read("x", "[1]")}, {tensor("e", shape)}, "{\"size\":" + shape + "}"),
              node("r", "aten.relu.default", {read("e", shape)}, {tensor("r", shape)})};
  ir.outputs = {tensor("r", shape)};
  if (summed) {
    ir.nodes.push_back(node("s", "aten.sum.default", {read("r", shape)}, {tensor("s", "[]")}));
    ir.outputs = {tensor("s", "[]")};
  }
  return {"main", "big.json", ir.json()};
}

std::pair<ErrorKind, std::string> error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::internal, "none"};
}

TEST(Budgets, AreCheckedAgainstWhatProgramsNeed) {
  for (const auto& p : test::threaded_programs(2)) {
    const Needs needs = program_needs(*p.program);
    uint64_t least = 0;
    for (const Buffer& b : p.program->buffers)
      if (b.kind != BufferKind::arena && b.kind != BufferKind::local) least += byte_size(b.type);
    EXPECT_GE(needs.bytes, least) << p.name;
    EXPECT_GE(needs.flops, method_work(*p.program, "main").flops) << p.name;
    EXPECT_GT(needs.flops, 0U);
    const auto open = [&](const Budget& budget) {
      return error_of([&] { Session(p.program, {.weights = p.weights, .threads = 1, .budget = budget}); });
    };
    EXPECT_EQ(open({needs.bytes, needs.flops}).second, "none");
    for (const Budget& budget : {Budget{needs.bytes - 1, 0}, Budget{0, needs.flops - 1}, Budget{1, 1}}) {
      const auto [kind, text] = open(budget);
      EXPECT_EQ(kind, ErrorKind::unsupported);
      const bool bytes = budget.max_bytes > 0;
      EXPECT_NE(text.find(std::to_string(bytes ? needs.bytes : needs.flops)), std::string::npos) << text;
      EXPECT_NE(text.find(std::to_string(bytes ? budget.max_bytes : budget.max_flops)), std::string::npos) << text;
    }
    // Before weights are looked for.
    EXPECT_EQ(error_of([&] { Session(p.program, {.budget = {1, 0}}); }).first, ErrorKind::unsupported);
  }
}

TEST(Budgets, OfWhatIsCompiled) {
  for (const bool summed : {false, true})
    for (const int64_t n : {int64_t{1} << 10, int64_t{1} << 20, int64_t{1} << 40}) {
      CompileOptions options;
      options.dtype = "float32";
      const Needs needs = program_needs(*compile({expanded(n, summed)}, options).program);
      EXPECT_GE(needs.flops, static_cast<uint64_t>(n));
      EXPECT_EQ(needs.bytes >= static_cast<uint64_t>(n), !summed);
      options.budget = {needs.bytes, needs.flops};
      EXPECT_EQ(program_needs(*compile({expanded(n, summed)}, options).program).bytes, needs.bytes);
      for (const Budget& budget : {Budget{needs.bytes - 1, 0}, Budget{0, needs.flops - 1}}) {
        options.budget = budget;
        EXPECT_EQ(error_of([&] { compile({expanded(n, summed)}, options); }).first, ErrorKind::unsupported);
      }
    }
}

// Larger than a program can say, than this machine is, and than its numbers.
TEST(Sizes, BeyondAllMachinesAreRefusedByName) {
  const std::vector<HostTensor> one = {make_tensor({DType::f32, {1}})};
  for (const int power : {36, 40, 44, 46, 50, 55}) {
    const int64_t n = int64_t{1} << power;
    if (static_cast<uint64_t>(n) * 4 <= machine_memory()) continue;
    CompileOptions options;
    options.dtype = "float32";
    const auto [kind, text] = error_of([&] { Session(compile({expanded(n, false)}, options).program); });
    EXPECT_EQ(kind, n * 4 > int64_t{1} << 46 ? ErrorKind::unsupported : ErrorKind::device) << text;
    EXPECT_NE(text.find("'r'"), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(n * 4)), std::string::npos) << text;
    const auto evaluated = error_of([&] { evaluate_ir(expanded(n, false), one, nullptr); });
    EXPECT_EQ(evaluated.first, ErrorKind::device) << evaluated.second;
    EXPECT_NE(evaluated.second.find("node "), std::string::npos) << evaluated.second;
  }
}

}  // namespace
}  // namespace npusim
