// What is code in a program is left out when asked: its steps do the same on the CPU; calls are refused by name.
#include <gtest/gtest.h>

#include "base/error.h"
#include "fuzz/run_program.h"
#include "program/sample.h"

namespace npusim {
namespace {

std::string run_on_cpu(const std::shared_ptr<const Program>& program, const std::string& method) {
  std::vector<HostTensor> memory;
  SessionOptions options;
  options.weights = hostile::weights_for(*program, memory);
  options.devices.assign(program->devices.size(), open_backend("cpu"));
  options.threads = 1;
  Session session(program, std::move(options));
  session.run(method);
  const auto out = session.output(method, 0);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

TEST(Code, LaunchesAreLeftOut) {
  Program split = split_program();
  for (Buffer& buffer : split.buffers) buffer.finite_for.clear();
  for (Expr& e : split.kernels[2].exprs)
    if (e.op == ExprOp::constant) e.number = 3;
  const std::string file = serialize(split);
  std::vector<std::string> notes;
  const auto plain = parse_program(file, "p", {.code = false, .notes = &notes});
  EXPECT_EQ(notes, std::vector<std::string>{"a launch of toy left out: the CPU runs its steps"});
  EXPECT_EQ(check_program(*plain), std::vector<std::string>{});
  EXPECT_EQ(program_info(*plain).targets, (std::vector<std::string>{"cpu", "cpu"}));
  EXPECT_TRUE(plain->code.empty() && plain->choices.empty() && plain->variants.empty());
  for (const Method& method : plain->methods) EXPECT_TRUE(method.launches.empty());
  for (const Buffer& buffer : plain->buffers) EXPECT_NE(buffer.kind, BufferKind::local);
  EXPECT_EQ(parse_program(serialize(*plain), "again")->methods.size(), 2u);
  Program whole = sample_program();
  whole.kernels[2] = split.kernels[2];
  for (Buffer& buffer : whole.buffers) buffer.finite_for.clear();
  const auto both = std::make_shared<const Program>(whole);
  for (const char* method : {"prefill", "decode"})
    EXPECT_EQ(run_on_cpu(plain, method).size(), run_on_cpu(both, method).size());
}

TEST(Code, CallsAreRefusedByName) {
  const std::string file = serialize(call_program());
  EXPECT_NO_THROW(parse_program(file, "p"));
  try {
    parse_program(file, "p", {.code = false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(error.what(),
                 "node join: aten.fake_join.out_of is done by a plugin, which is code and was not to be used");
  }
}

}  // namespace
}  // namespace npusim
