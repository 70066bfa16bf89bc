// Where buffers lie: those that exist at one time lie apart, and a file asks for no memory that nothing in it needs.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>

#include "npusim/session.h"
#include "program/sample.h"
#include "program/without_code.h"

namespace npusim {
namespace {

using Problems = std::vector<std::string>;

// x -> a -> b -> c -> y, each of 24 bytes; `offsets` are those of a, b and c.
Program chain(std::array<uint64_t, 3> offsets, uint64_t bytes = 192) {
  const TensorType type{DType::f32, {2, 3}};
  Program p;
  p.model = "chain";
  p.devices = {{"cpu", {}}};
  p.devices[0].config.name = "cpu";
  p.kernels = {copy_kernel(type, 2)};
  for (const char* name : {"x", "a", "b", "c", "y"})
    p.buffers.push_back({.name = name, .type = type, .stored = {}, .fqn = {}, .tied = {}});
  p.buffers[0].kind = BufferKind::input;
  p.buffers[4].kind = BufferKind::output;
  for (size_t i = 0; i < 3; ++i) p.buffers[i + 1].offset = offsets[i];
  Method main;
  main.name = "main";
  main.inputs = {{"x", type, 0}};
  main.outputs = {{"y", type, 4}};
  for (int32_t i = 0; i < 4; ++i) main.steps.push_back({0, {i, i + 1}, 0, {}});
  main.arenas = {{bytes, 0, 0}};
  p.methods = {main};
  return p;
}

TEST(Memory, BuffersThatExistAtOneTimeLieApart) {
  EXPECT_EQ(check_program(chain({0, 64, 128})), Problems{});
  EXPECT_EQ(check_program(chain({0, 24, 0}, 64)), Problems{});  // a is over when c begins
  for (const uint64_t overlap : {0, 4, 20})
    EXPECT_EQ(check_program(chain({0, overlap, 128})),
              Problems{"method 'main': buffers 'a' and 'b' exist at the same time and overlap in memory"});
  EXPECT_EQ(check_program(chain({0, 64, 60})),
            Problems{"method 'main': buffers 'b' and 'c' exist at the same time and overlap in memory"});
  Program later = chain({0, 24, 0}, 64);
  later.methods[0].steps.push_back({0, {1, 4}, 0, {}});  // a is read once more
  EXPECT_EQ(check_program(later),
            Problems{"method 'main': buffers 'a' and 'c' exist at the same time and overlap in memory"});
}

TEST(Memory, ArenasEndWhereTheirBuffersDo) {
  EXPECT_EQ(check_program(chain({0, 64, 128}, 152)), Problems{});
  EXPECT_EQ(
      check_program(chain({0, 64, 128}, uint64_t{3} << 30)),
      Problems{"method 'main': device 0: expected an arena of 152 bytes, where its buffers end, found 3221225472"});
  Program workspace = chain({0, 64, 128});
  workspace.methods[0].arenas[0].workspace_bytes = uint64_t{3} << 30;
  EXPECT_EQ(check_program(workspace).size(), 1u);
}

// A workspace may be padded, and so empty of buffers; none of it becomes memory that nothing needs.
TEST(Memory, WithoutCodeArenasEndWhereTheirBuffersDo) {
  for (const uint64_t workspace : {0, 24, 63})
    for (const bool local : {false, true}) {
      Program p = chain({0, 64, 128}, 152 + 63);
      p.methods[0].arenas[0].workspace_bytes = workspace;
      if (local && workspace < 24) continue;
      if (local) p.buffers[2].kind = BufferKind::local, p.buffers[2].offset = 0;
      std::vector<std::string> notes;
      leave_out_code(p, notes);
      EXPECT_EQ(check_program(p), Problems{}) << workspace << ' ' << local;
      EXPECT_EQ(p.methods[0].arenas[0].workspace_bytes, 0u);
    }
}

TEST(Memory, BuffersThatNothingNames) {
  Program p = chain({0, 64, 128});
  p.buffers.push_back({.name = "huge",
                       .kind = BufferKind::input,
                       .type = {DType::u8, {int64_t{1} << 40}},
                       .stored = {},
                       .fqn = {},
                       .tied = {}});
  EXPECT_EQ(check_program(p), Problems{"buffer 5 'huge': no step and no method names it"});
}

TEST(Memory, OneBufferForTwoResults) {
  Program p = chain({0, 64, 128});
  KernelBuilder k({6});
  const Ex x = k.load_flat(k.input({DType::f32, {6}}));
  k.store_flat(k.output({DType::f32, {6}}), x);
  k.store_flat(k.output({DType::f32, {6}}), x * 2);
  p.kernels.push_back(k.finish("two"));
  p.methods[0].steps[0] = {1, {0, 1, 1}, 0, {}};
  EXPECT_EQ(check_program(p),
            Problems{"method 'main': step 0 '': argument 2: buffer 'a' is written as another one, too"});
}

// What a step leaves unwritten is zero in every run: not what an earlier run left there, and not what a caller's memory
// held.
TEST(Memory, WhatIsNotStoredIsZero) {
  const TensorType type{DType::f32, {2, 3}};
  const Kernel whole = copy_kernel(type, 2);
  const auto changed = [&](const std::function<void(Kernel&)>& change) {
    Kernel k = whole;
    change(k);
    return k;
  };
  const std::vector<std::pair<Kernel, size_t>> kernels{
      {changed([](Kernel& k) { k.space[0] = 3; }), 3},
      {changed([](Kernel& k) {
         k.stores[0].access.strides = {0}, k.stores[0].access.guards = {{{1}, 0, 4, 1}};
       }),
       4},
      {changed([](Kernel& k) { k.stores[0].accumulate = true; }), 6},
      {whole, 6},
  };
  for (const auto& [kernel, stored] : kernels)
    for (const size_t step : {0, 1, 3}) {
      Program p = chain({0, 64, 128});
      p.kernels.push_back(kernel);
      p.methods[0].steps[step].kernel = 1;
      ASSERT_EQ(check_program(p), Problems{}) << to_text(kernel);
      Session session(std::make_shared<const Program>(p), {.threads = 1});
      for (int run = 1; run < 4; ++run) {
        std::vector<float> x(6), y(6, 99), wanted(6, 0);
        for (size_t i = 0; i < 6; ++i) x[i] = static_cast<float>(run * 10 + static_cast<int>(i));
        for (size_t i = 0; i < 6; ++i)
          if (i < stored) wanted[i] = x[i] * 16;  // each step doubles
        session.set_input("main", "x", std::as_bytes(std::span(x)));
        session.bind_output("main", "y", std::as_writable_bytes(std::span(y)));
        session.run("main");
        EXPECT_EQ(y, wanted) << to_text(kernel) << step;
      }
    }
}

}  // namespace
}  // namespace npusim
