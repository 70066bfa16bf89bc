// .npubin round trips: the same program, the same bytes; every field kept.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "program/fields.h"
#include "program/sample.h"

namespace npusim {
namespace {

TEST(Serialize, SamplesAreSound) {
  EXPECT_EQ(check_program(sample_program()), std::vector<std::string>{});
  EXPECT_EQ(check_program(split_program()), std::vector<std::string>{});
}

TEST(Serialize, LaunchesAndDevicesAreKept) {
  const std::string bytes = serialize(split_program());
  const Program copy = deserialize(bytes, "p");
  EXPECT_EQ(serialize(copy), bytes);
  EXPECT_EQ(copy.devices[1].target, "toy");
  EXPECT_EQ(copy.methods[1].launches[0].args, split_program().methods[1].launches[0].args);
  EXPECT_EQ(copy.code[0][0].bytes, split_program().code[0][0].bytes);
}

TEST(Serialize, RoundTripIsByteIdentical) {
  const std::string bytes = serialize(sample_program());
  const Program copy = deserialize(bytes, "p");
  EXPECT_EQ(serialize(copy), bytes);
  EXPECT_EQ(serialize(sample_program()), bytes);
  EXPECT_EQ(copy.buffers[3].tied, std::vector<std::string>{"other.weight"});
  EXPECT_EQ(to_text(copy.kernels[1]), to_text(sample_program().kernels[1]));
  EXPECT_EQ(copy.constants[0].data, sample_program().constants[0].data);
}

TEST(Serialize, NumbersKeepTheirBits) {
  constexpr uint64_t numbers[] = {0x7ff8000000000000, 0xfff8000000000123, 0x7ff0000000000000, 0xfff0000000000000,
                                  0x8000000000000000, 0x0000000000000001, 0x3fb999999999999a};
  for (const uint64_t bits : numbers) {
    Program program = sample_program();
    size_t changed = 0;
    for (Expr& e : program.kernels[3].exprs)
      if (e.op == ExprOp::constant) e.number = std::bit_cast<double>(bits), ++changed;
    ASSERT_EQ(changed, 1u);
    const Program copy = deserialize(serialize(program), "p");
    for (const Expr& e : copy.kernels[3].exprs) {
      if (e.op == ExprOp::constant) {
        EXPECT_EQ(std::bit_cast<uint64_t>(e.number), bits);
      }
    }
  }
}

TEST(Serialize, IntegersOfEveryLength) {
  for (const int64_t value :
       {int64_t{0}, int64_t{127}, int64_t{128}, int64_t{255}, int64_t{256}, int64_t{65535}, int64_t{65536},
        int64_t{1} << 32, INT64_MAX, int64_t{-1}, int64_t{-32}, int64_t{-33}, int64_t{-128}, int64_t{-129},
        int64_t{-32768}, int64_t{-32769}, int64_t{INT32_MIN}, int64_t{INT32_MIN} - 1, INT64_MIN}) {
    Program program = sample_program();
    program.methods[1].fusions["attention"] = value;
    EXPECT_EQ(deserialize(serialize(program), "p").methods[1].fusions.at("attention"), value);
  }
}

TEST(Serialize, TextAndListsOfEveryLength) {
  for (const size_t length : {0, 31, 32, 255, 256, 4096, 65535, 65536}) {
    Program program = sample_program();
    program.model = std::string(std::min(length, most_text_bytes), 'x');
    program.buffers[3].tied.assign(length, "t");
    const Program copy = deserialize(serialize(program), "p");
    EXPECT_EQ(copy.model, program.model);
    EXPECT_EQ(copy.buffers[3].tied.size(), length);
  }
}

// A field added to a struct must be added to program/fields.h too: both are counted.
struct Any {
  template <typename T>
  operator T() const;
};
template <typename T, typename... A>
constexpr size_t members() {
  if constexpr (requires { T{A{}..., Any{}}; })
    return members<T, A..., Any>();
  else
    return sizeof...(A);
}
struct Counter {
  size_t count = 0;
  template <typename T>
  void operator()(std::string_view, const T&) {
    ++count;
  }
  bool has(const std::vector<Variant>&) const { return true; }
};
template <typename T>
size_t listed() {
  Counter counter;
  T value{};
  fields(counter, value);
  return counter.count;
}

TEST(Serialize, EveryMemberIsListed) {
  EXPECT_EQ(members<TensorType>(), listed<TensorType>());
  EXPECT_EQ(members<HostTensor>(), listed<HostTensor>());
  EXPECT_EQ(members<Expr>(), listed<Expr>());
  EXPECT_EQ(members<Guard>(), listed<Guard>());
  EXPECT_EQ(members<IndexTerm>(), listed<IndexTerm>());
  EXPECT_EQ(members<Access>(), listed<Access>());
  EXPECT_EQ(members<Store>(), listed<Store>());
  EXPECT_EQ(members<KernelArg>(), listed<KernelArg>());
  EXPECT_EQ(members<Contraction>(), listed<Contraction>());
  EXPECT_EQ(members<Kernel>(), listed<Kernel>());
  EXPECT_EQ(members<TargetConfig>(), listed<TargetConfig>());
  EXPECT_EQ(members<Buffer>(), listed<Buffer>());
  EXPECT_EQ(members<TensorSpec>(), listed<TensorSpec>());
  EXPECT_EQ(members<Step>(), listed<Step>());
  EXPECT_EQ(members<Origin>(), listed<Origin>());
  EXPECT_EQ(members<Launch>(), listed<Launch>());
  EXPECT_EQ(members<Sequence>(), listed<Sequence>());
  EXPECT_EQ(members<Arena>(), listed<Arena>());
  EXPECT_EQ(members<Method>() + listed<Sequence>() - 1, listed<Method>());  // it is a Sequence, and that one member
  EXPECT_EQ(members<Code>(), listed<Code>());
  EXPECT_EQ(members<ProgramDevice>(), listed<ProgramDevice>());
  EXPECT_EQ(members<Variant>(), listed<Variant>());
  EXPECT_EQ(members<Program>() + listed<Variant>() - 1, listed<Program>());  // it is a Variant, and that one member
}

}  // namespace
}  // namespace npusim
