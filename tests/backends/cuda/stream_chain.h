// Methods as one launch, executed on the CPU by several blocks at a time, and chains of kernels as such a method.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/launch.h"
#include "backends/cuda/harness/features.h"
#include "backends/cuda/harness/harness.h"
#include "base/dtype.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"
#include "program/program.h"

namespace npusim {

using Memory = std::vector<std::vector<std::byte>>;  // by buffer

inline double number(const std::byte* at, DType dtype) {
  const auto bits = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return bits(float{});
    case DType::bf16:
      return bf16_to_float(bits(uint16_t{}));
    case DType::f16:
      return static_cast<double>(f16_to_float(bits(uint16_t{})));
    case DType::i64:
      return static_cast<double>(bits(int64_t{}));
    default:
      return 0;
  }
}

inline void put(std::byte* at, DType dtype, double value) {
  const auto bits = [&](auto converted) { std::memcpy(at, &converted, sizeof converted); };
  switch (dtype) {
    case DType::f32:
      return bits(static_cast<float>(value));
    case DType::bf16:
      return bits(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    case DType::f16:
      return bits(float_to_f16(static_cast<float>(value)));
    case DType::i64:
      return bits(static_cast<int64_t>(value));
    default:
      return;
  }
}

inline size_t elements_of(const Buffer& b) { return stored_bytes(b) / dtype_size(b.type.dtype); }

// Weights as of a model whose values stay of one size; constants; states of small numbers.
inline Memory first_memory(const Program& program, unsigned seed) {
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
    for (size_t i = 0, count = elements_of(b); i < count; ++i)
      put(memory.back().data() + i * dtype_size(b.type.dtype), b.type.dtype, normal(random));
  }
  return memory;
}

inline void interpret(const Program& program, const Sequence& sequence, Memory& memory) {
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

// The norm of the difference by that of the expected, where they are not equal.
inline double distance(const Buffer& b, const std::vector<std::byte>& found, const std::vector<std::byte>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0, count = elements_of(b); i < count; ++i) {
    const double f = number(found.data() + i * dtype_size(b.type.dtype), b.type.dtype);
    const double e = number(expected.data() + i * dtype_size(b.type.dtype), b.type.dtype);
    if (f == e || (std::isnan(f) && std::isnan(e))) continue;  // infinities too
    difference += (f - e) * (f - e), norm += e * e;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// A program of these kernels, one after the other: buffers by name, weights where it begins with w, states with s, the
// caller's with x or y, and else the method's own.
struct Chain {
  Program program;
  cuda::codegen::Features device = hopper;
  std::map<std::string, int32_t> named;
  Chain() {
    program.devices = {{"cuda", {}}};
    program.methods.resize(1);
    program.methods[0].name = "chain";
  }
  void add(const Kernel& kernel, const std::vector<std::string>& names) {
    Step step{static_cast<int32_t>(program.kernels.size()), {}, 0, {}};
    for (size_t i = 0; i < names.size(); ++i) {
      const auto [known, fresh] = named.try_emplace(names[i], static_cast<int32_t>(program.buffers.size()));
      step.buffers.push_back(known->second);
      if (!fresh) continue;
      Buffer& b = program.buffers.emplace_back();
      b.name = names[i];
      b.type = {kernel.args[i].dtype, {1, kernel.args[i].elements}};
      b.kind = names[i][0] == 'w'   ? BufferKind::weight
               : names[i][0] == 'x' ? BufferKind::input
               : names[i][0] == 'y' ? BufferKind::output
               : names[i][0] == 's' ? BufferKind::state
                                    : BufferKind::local;
      if (b.kind == BufferKind::output || b.kind == BufferKind::state)
        program.methods[0].outputs.push_back({b.name, b.type, known->second});
    }
    program.kernels.push_back(kernel);
    program.methods[0].steps.push_back(std::move(step));
  }
  using Given = std::map<std::string, std::map<size_t, double>>;
  // Inputs are random but for elements that are given.
  Memory memory_of(const Given& given) const {
    Memory memory = first_memory(program, 3);
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> real(-1, 1);
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& b = program.buffers[i];
      if (b.kind != BufferKind::input && b.kind != BufferKind::state) continue;
      for (size_t e = 0, count = b.kind == BufferKind::input ? elements_of(b) : 0; e < count; ++e)
        put(memory[i].data() + e * dtype_size(b.type.dtype), b.type.dtype, real(random));
      if (const auto some = given.find(b.name); some != given.end())
        for (const auto& [e, value] : some->second)
          put(memory[i].data() + e * dtype_size(b.type.dtype), b.type.dtype, value);
    }
    return memory;
  }
  std::string text_of(Launch& launch, const cuda::codegen::stream::StreamCandidate& way = {}) const {
    launch.count = static_cast<int32_t>(program.methods[0].steps.size());
    launch.together = true;
    std::string why;
    auto stream = cuda::codegen::stream::make_stream(
        cuda::codegen::stream::method_of(program, program.methods[0], launch), way, device, false, why);
    if (!stream) fail(ErrorKind::internal, "no stream: {}", why);
    const Method& method = program.methods[0];
    plan::fill_launch(program, method, launched_by(*stream, plan::steps_of(method, launch)), launch);
    return stream->made->functions;
  }
  // Runs it by one block and by three, twice each, and compares what comes out with the interpreter's.
  void check(double bar, const Given& given = {},
             std::span<const cuda::codegen::stream::StreamCandidate> ways =
                 cuda::codegen::stream::stream_candidates().first(1),
             const std::vector<unsigned>& grids = {1, 3}) const {
    check_each(bar, {given}, ways, grids);
  }
  void check_each(double bar, const std::vector<Given>& all,
                  std::span<const cuda::codegen::stream::StreamCandidate> ways,
                  const std::vector<unsigned>& grids) const {
    const Method& method = program.methods[0];
    std::vector<Memory> first, expected;
    std::vector<std::vector<Memory>> found(all.size());
    for (const Given& given : all) {
      first.push_back(memory_of(given));
      expected.push_back(first.back());
      interpret(program, method, expected.back());
    }
    for (const cuda::codegen::stream::StreamCandidate& way : ways) {
      Launch launch;
      const std::string text = text_of(launch, way);
      for (const unsigned blocks : grids) {
        Stream stream(launch, text, blocks);
        ASSERT_EQ(stream.error(), "");
        for (size_t n = 0; n < all.size(); ++n)
          for (int run = 0; run < 2; ++run) {
            found[n].push_back(first[n]);
            ASSERT_EQ(stream.run(found[n].back(), blocks == 3 ? mslx::Order::reverse : mslx::Order::random), "");
          }
      }
    }
    for (const TensorSpec& output : method.outputs) {
      const auto b = static_cast<size_t>(output.buffer);
      for (size_t n = 0; n < all.size(); ++n)
        for (const Memory& memory : found[n]) {
          EXPECT_EQ(memory[b], found[n][0][b]) << output.name;
          EXPECT_LT(distance(program.buffers[b], memory[b], expected[n][b]), bar) << output.name;
        }
    }
  }
};

// By the root of the mean of the squares.
inline Ex normed(KernelBuilder& b, const Ex& x, int64_t size) {
  return x * rsqrt(b.reduce(Reduction::sum, x * x) / static_cast<double>(size) + 1e-6);
}
inline Kernel normed_heads(int64_t heads, int64_t size, DType type) {
  KernelBuilder b({heads, size}, 1);
  const int row = b.input({type, {heads, size}}), out = b.output({type, {heads, size}});
  b.store(out, normed(b, b.load_broadcast(row), size));
  return b.finish("normed_heads");
}

inline int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace npusim
