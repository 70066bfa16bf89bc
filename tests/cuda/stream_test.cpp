// Methods as one launch, printed and executed on the CPU by several blocks at a time, against the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backends/cuda/target/stream/launch.h"
#include "base/error.h"
#include "compiler/compile_for.h"
#include "cuda/harness/harness.h"
#include "kernel/evaluate.h"
#include "program/program.h"

namespace npusim {
namespace {

// The build's target as far as the printed text, which is kept: no machine code, so nothing that compiles it is needed.
class TextTarget : public CodegenTarget {
 public:
  const TargetConfig& config() const override { return target_->config(); }
  std::string refuse(const Kernel& kernel) const override { return target_->refuse(kernel); }
  Unfused in_parts(const Kernel& kernel) const override { return target_->in_parts(kernel); }
  size_t group(std::span<const GroupStep>) const override { return 1; }
  std::optional<std::string> cannot_launch_whole(const WholeMethod& method) const override {
    std::optional<std::string> why = cuda::cannot_stream(method);
    reasons.push_back(why.value_or(""));
    return why;
  }
  void plan(Program& program) const override {
    program.code.push_back({"cubin", "sm_90a", std::vector<std::byte>(1)});
    const auto fill = [&](Sequence& sequence) {
      for (Launch& launch : sequence.launches) {
        launch.code = 0;
        launch.symbol = "alone";
        launch.args = sequence.steps[static_cast<size_t>(launch.first)].buffers;
        if (!launch.together) continue;
        const std::string text = cuda::plan_stream_launch(program, sequence, launch);
        texts_of[launch.symbol] = text;
      }
    };
    fill(program.recipes);
    for (Method& method : program.methods) fill(method);
  }
  mutable std::map<std::string, std::string> texts_of;  // by symbol
  mutable std::vector<std::string> reasons;             // by method: why it is no stream

 private:
  std::shared_ptr<const CodegenTarget> target_ = open_target("cuda:sm_90a,stream");
};

using Memory = std::vector<std::vector<std::byte>>;  // by buffer

double number(const std::byte* at, DType dtype) {
  const auto bits = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return bits(float{});
    case DType::bf16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits(uint16_t{})) << 16);
    case DType::f16:
      return static_cast<double>(bits(_Float16{}));
    case DType::i64:
      return static_cast<double>(bits(int64_t{}));
    default:
      return 0;
  }
}

void put(std::byte* at, DType dtype, double value) {
  const auto bits = [&](auto converted) { std::memcpy(at, &converted, sizeof converted); };
  switch (dtype) {
    case DType::f32:
      return bits(static_cast<float>(value));
    case DType::bf16:
      return bits(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    case DType::f16:
      return bits(static_cast<_Float16>(value));
    case DType::i64:
      return bits(static_cast<int64_t>(value));
    default:
      return;
  }
}

size_t elements_of(const Buffer& b) { return stored_bytes(b) / dtype_size(b.type.dtype); }

// Weights as of a model whose values stay of one size; constants; states of small numbers.
Memory first_memory(const Program& program, unsigned seed) {
  std::mt19937_64 random(seed);
  Memory memory;
  for (const Buffer& b : program.buffers) {
    memory.emplace_back(stored_bytes(b) + 16);
    if (b.kind == BufferKind::constant) {
      const HostTensor& constant = program.constants[static_cast<size_t>(b.constant)];
      std::memcpy(memory.back().data(), constant.data.data(), constant.data.size());
    }
    if (b.kind != BufferKind::weight && b.kind != BufferKind::state) continue;
    const bool vector = b.type.shape.size() < 2;
    const double size = vector ? 0.1 : 1 / std::sqrt(static_cast<double>(b.type.shape.back()));
    std::normal_distribution<double> normal(vector && b.name.find("norm") != std::string::npos ? 1 : 0, size);
    for (size_t i = 0; i < elements_of(b); ++i)
      put(memory.back().data() + i * dtype_size(b.type.dtype), b.type.dtype, normal(random));
  }
  return memory;
}

void interpret(const Program& program, const Sequence& sequence, Memory& memory) {
  for (const Step& step : sequence.steps) {
    std::vector<void*> args;
    for (int32_t b : step.buffers) args.push_back(memory[static_cast<size_t>(b)].data());
    evaluate(program.kernels[static_cast<size_t>(step.kernel)], args);
  }
}

// The launch of a method on memory of its own, by this many blocks.
class Stream {
 public:
  Stream(const Launch& launch, const std::string& functions, unsigned blocks)
      : launch_(launch), blocks_(blocks), own_(launch.own_bytes, 16), library_(compile_on_cpu(functions)) {
    std::memset(own_.data(), 0, launch.own_bytes);
  }
  const std::string& error() const { return library_.error; }
  std::string run(Memory& memory, mslx::Order order) {
    int trap = 0;
    std::vector<void*> given;
    for (int32_t arg : launch_.args)
      given.push_back(arg == trap_word    ? &trap
                      : arg == own_memory ? own_.data()
                                          : static_cast<void*>(memory[static_cast<size_t>(arg)].data()));
    mslx::Bindings bindings;
    bindings.buffer(0, given.data());
    bindings.threadgroup(0, launch_.shared_bytes);
    mslx::Options options;
    options.order = order;
    options.force_fibers = true;
    options.flush_subnormals = false;
    options.threadgroup_bytes = 227 << 10;
    options.workers = static_cast<int>(blocks_);
    const mslx::Result result = mslx::dispatch_groups(library_.find(launch_.symbol), {blocks_, 1, 1},
                                                      {launch_.block[0], 1, 1}, bindings, options);
    if (!result.ok()) return result.error;
    return trap == 0 ? "" : launch_.traps[static_cast<size_t>(trap) - 1];
  }

 private:
  const Launch& launch_;
  const unsigned blocks_;
  mslx::GuardedBuffer own_;
  mslx::Library library_;
};

// Tokens and positions of a step; masks let it see what is behind it.
void set_inputs(const Program& program, const Method& method, int64_t position, Memory& memory) {
  for (const TensorSpec& input : method.inputs) {
    const Buffer& b = program.buffers[static_cast<size_t>(input.buffer)];
    if (b.kind != BufferKind::input) continue;
    std::byte* const at = memory[static_cast<size_t>(input.buffer)].data();
    const bool mask = input.name.find("mask") != std::string::npos;
    for (size_t i = 0; i < elements_of(b); ++i) {
      double value = input.name.find("position") != std::string::npos ? static_cast<double>(position)
                                                                      : static_cast<double>(17 + 31 * position % 500);
      if (mask) value = static_cast<int64_t>(i) <= position ? 0 : -INFINITY;
      put(at + i * dtype_size(b.type.dtype), b.type.dtype, value);
    }
  }
}

// The norm of the difference by that of the expected.
double distance(const Buffer& b, const std::vector<std::byte>& found, const std::vector<std::byte>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < elements_of(b); ++i) {
    const double f = number(found.data() + i * dtype_size(b.type.dtype), b.type.dtype);
    const double e = number(expected.data() + i * dtype_size(b.type.dtype), b.type.dtype);
    difference += (f - e) * (f - e), norm += e * e;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

void check_method(const Program& program, const Method& method, const TextTarget& target,
                  const std::vector<int64_t>& positions) {
  SCOPED_TRACE(method.name);
  ASSERT_EQ(method.launches.size(), 1U);
  const Launch& launch = method.launches[0];
  ASSERT_TRUE(launch.together);
  Memory expected = first_memory(program, 7);
  interpret(program, program.recipes, expected);
  Memory three = expected, five = expected;
  Stream by_three(launch, target.texts_of.at(launch.symbol), 3), by_five(launch, target.texts_of.at(launch.symbol), 5);
  ASSERT_EQ(by_three.error(), "");
  for (int64_t position : positions) {
    for (Memory* memory : {&expected, &three, &five}) set_inputs(program, method, position, *memory);
    interpret(program, method, expected);
    ASSERT_EQ(by_three.run(three, mslx::Order::forward), "");
    ASSERT_EQ(by_five.run(five, mslx::Order::random), "");
    for (const TensorSpec& output : method.outputs) {
      const auto b = static_cast<size_t>(output.buffer);
      EXPECT_EQ(three[b], five[b]) << output.name << " at " << position;
      EXPECT_LT(distance(program.buffers[b], three[b], expected[b]), 0.01) << output.name << " at " << position;
    }
  }
}

TEST(CudaStream, DecodeOfATrainedModel) {
  const std::string folder = NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/";
  const TextTarget target;
  CompileOptions options;
  const auto program = compile_for(target, {{"decode", folder + "decode_ir.json", {}}}, options).program;
  ASSERT_FALSE(target.reasons.empty());
  ASSERT_EQ(target.reasons[0], "");
  check_method(*program, program->methods[0], target, {0, 1, 255});
}

// Prefills have too many rows; methods that feed themselves know how many keys there are.
TEST(CudaStream, MethodsOfOneText) {
  const std::string folder = NPUSIM_SOURCE_DIR "/examples/models/tinyqwen/";
  const TextTarget target;
  CompileOptions options;
  options.kv_map.path = folder + "kv_mapping.json";
  const auto program =
      compile_for(target, {{"prefill", folder + "prefill_ir.json", {}}, {"decode", folder + "decode_ir.json", {}}},
                  options)
          .program;
  int streams = 0, counted = 0;
  for (const Method& method : program->methods) {
    if (!method.launches[0].together) {
      EXPECT_NE(method.launches.size(), 1U);
      EXPECT_NE(method.launches[0].how.find(" rows, not up to"), std::string::npos) << method.launches[0].how;
      continue;
    }
    ++streams;
    for (const Step& step : method.steps) {
      const Kernel& k = program->kernels[static_cast<size_t>(step.kernel)];
      counted += k.contraction && k.contraction->score && k.contraction->score->keys >= 0;
    }
    check_method(*program, method, target, {0, 1, 2});
  }
  EXPECT_EQ(streams, 2);
  EXPECT_GT(counted, 0);
}

// What is no stream says why, and stays a launch for each step.
TEST(CudaStream, SaysWhatCannotBeOne) {
  const auto reason = [](const std::string& model) {
    const TextTarget target;
    const auto program =
        compile_for(target, {{"main", NPUSIM_SOURCE_DIR "/examples/zoo/" + model + "/ir.json", {}}}).program;
    for (const Method& method : program->methods) {
      EXPECT_GT(method.launches.size(), 1U);
      for (const Launch& launch : method.launches) EXPECT_FALSE(launch.together);
    }
    return target.reasons.at(0);
  };
  EXPECT_NE(reason("minilm_l6").find(" rows, not up to 8"), std::string::npos) << reason("minilm_l6");
  EXPECT_NE(reason("resnet18").find("points"), std::string::npos) << reason("resnet18");
}

}  // namespace
}  // namespace npusim
