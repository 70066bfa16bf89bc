// Methods as one launch, printed and executed on the CPU by several blocks at a time, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backends/cuda/target/stream/launch.h"
#include "base/dtype.h"
#include "base/error.h"
#include "compiler/compile_for.h"
#include "cuda/harness/harness.h"
#include "kernel/contractions.h"
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
      return bf16_to_float(bits(uint16_t{}));
    case DType::f16:
      return static_cast<double>(f16_to_float(bits(uint16_t{})));
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
      return bits(float_to_f16(static_cast<float>(value)));
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

// The norm of the difference by that of the expected, where they are not equal.
double distance(const Buffer& b, const std::vector<std::byte>& found, const std::vector<std::byte>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < elements_of(b); ++i) {
    const double f = number(found.data() + i * dtype_size(b.type.dtype), b.type.dtype);
    const double e = number(expected.data() + i * dtype_size(b.type.dtype), b.type.dtype);
    if (f == e || (std::isnan(f) && std::isnan(e))) continue;  // infinities too
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
  // Of 33 blocks each has one part of an attention's keys at most, of a few several.
  Memory three = expected, five = expected, many = expected;
  const std::string& text = target.texts_of.at(launch.symbol);
  Stream by_three(launch, text, 3), by_five(launch, text, 5), by_many(launch, text, 33);
  ASSERT_EQ(by_three.error(), "");
  for (int64_t position : positions) {
    for (Memory* memory : {&expected, &three, &five, &many}) set_inputs(program, method, position, *memory);
    interpret(program, method, expected);
    ASSERT_EQ(by_three.run(three, mslx::Order::forward), "");
    ASSERT_EQ(by_five.run(five, mslx::Order::random), "");
    ASSERT_EQ(by_many.run(many, mslx::Order::reverse), "");
    for (const TensorSpec& output : method.outputs) {
      const auto b = static_cast<size_t>(output.buffer);
      EXPECT_EQ(three[b], five[b]) << output.name << " at " << position;
      EXPECT_EQ(three[b], many[b]) << output.name << " at " << position;
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
    EXPECT_NE(target.texts_of.at(method.launches[0].symbol).find("_fed_parts("), std::string::npos);
    for (const Step& step : method.steps) {
      const Kernel& k = program->kernels[static_cast<size_t>(step.kernel)];
      counted += k.contraction && k.contraction->score && k.contraction->score->keys >= 0;
    }
    check_method(*program, method, target, {0, 1, 2});
  }
  EXPECT_EQ(streams, 4);
  EXPECT_GT(counted, 0);
}

// Heads of 64, 128 and 256, norms on heads and behind what they add to, capped scores, frequencies by parts.
TEST(CudaStream, DecodeOfOtherArchitectures) {
  for (const char* model : {"llama", "qwen3", "gemma2", "mistral"}) {
    SCOPED_TRACE(model);
    const TextTarget target;
    CompileOptions options;
    options.dtype = "bfloat16";
    options.text = true;
    const std::string ir = fmt::format("{}/tests/cuda/decode/{}.json", NPUSIM_SOURCE_DIR, model);
    const auto program = compile_for(target, {{"decode", ir, {}}}, options).program;
    ASSERT_EQ(program->methods.size(), 4U);  // and those whose tokens are drawn
    check_method(*program, program->methods[0], target, {0, 1, 63});
    check_method(*program, program->methods[1], target, {0, 1, 2});  // goes on by itself
  }
}

// A program of these kernels, one after the other: buffers by name, weights where it begins with w, states with s, the
// caller's with x or y, and else the method's own.
struct Chain {
  Program program;
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
      for (size_t e = 0; b.kind == BufferKind::input && e < elements_of(b); ++e)
        put(memory[i].data() + e * dtype_size(b.type.dtype), b.type.dtype, real(random));
      if (const auto some = given.find(b.name); some != given.end())
        for (const auto& [e, value] : some->second)
          put(memory[i].data() + e * dtype_size(b.type.dtype), b.type.dtype, value);
    }
    return memory;
  }
  std::string text_of(Launch& launch, const cuda::StreamWay& way = {}) const {
    launch.count = static_cast<int32_t>(program.methods[0].steps.size());
    launch.together = true;
    return cuda::plan_stream_launch(program, program.methods[0], launch, way);
  }
  // Runs it by one block and by three, twice each, and compares what comes out with the interpreter's.
  void check(double bar, const Given& given = {}, std::span<const cuda::StreamWay> ways = cuda::stream_ways().first(1),
             const std::vector<unsigned>& grids = {1, 3}) const {
    check_each(bar, {given}, ways, grids);
  }
  void check_each(double bar, const std::vector<Given>& all, std::span<const cuda::StreamWay> ways,
                  const std::vector<unsigned>& grids) const {
    const Method& method = program.methods[0];
    std::vector<Memory> first, expected;
    std::vector<std::vector<Memory>> found(all.size());
    for (const Given& given : all) {
      first.push_back(memory_of(given));
      expected.push_back(first.back());
      interpret(program, method, expected.back());
    }
    for (const cuda::StreamWay& way : ways) {
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

// One row and several; depths of one piece, of several and of an odd number of units; a product that reads what another
// left at its own line, one whose result is float32, and one of which not every block has a line.
TEST(CudaStream, Products) {
  for (const int64_t rows : {1, 3, 8}) {
    SCOPED_TRACE(rows);
    const DType type = rows == 3 ? DType::f16 : DType::bf16;
    const auto sum = [](KernelBuilder&, Ex leaf, Ex bias, Ex residual) { return leaf + bias + residual; };
    Chain chain;
    chain.add(linear(rows, 64, 1600, type, type, type, sum), {"x", "w1", "wb1", "x_residual", "h"});
    chain.add(linear(rows, 64, 1600, type, type, type, sum), {"x", "w2", "wb1", "h", "g"});
    chain.add(linear(rows, 77, 64, type, type, DType::f32, sum), {"g", "w3", "wb3", "x_last", "y"});
    chain.add(linear(rows, 5, 64, type, type, type, sum), {"h", "w4", "wb4", "x_few", "y_few"});
    chain.add(linear(rows, 2, 1600, type, type, type, sum), {"x", "w5", "wb5", "x_two", "y_two"});
    chain.check(0.005);
  }
}

// Pieces of text are the same only where the same stages share their rows: of two products side by side once both have
// the same rows, once each its own.
TEST(CudaStream, RowsThatAreTheSameAndOthers) {
  Chain chain;
  const auto add = [&](const std::string& x, const std::string& w, const std::string& y) {
    chain.add(linear(1, 64, 64, DType::bf16, DType::bf16, DType::bf16, plain), {x, w, w + "b", "x_r", y});
  };
  add("x", "w1", "h1"), add("x", "w2", "h2");
  add("h1", "w3", "h3"), add("h1", "w4", "h4"), add("h2", "w5", "y1"), add("h1", "w6", "y2");
  add("h3", "w7", "h5"), add("h4", "w8", "h6"), add("h4", "w9", "y3"), add("h3", "w10", "y4");
  add("h5", "w11", "y5"), add("h6", "w12", "y6");
  chain.check(0.01);
}

// Timing chooses among ways that give the same bits. Depths of one piece and of several, more of both than the ring has
// room for, and more matrices and biases than the feeder's lanes have at once.
TEST(CudaStream, WaysGiveTheSameBits) {
  const DType type = DType::bf16;
  Chain chain;
  chain.add(linear(1, 1600, 1536, type, type, type, plain), {"x", "w1", "wb1", "x_r", "h0"});
  constexpr int last = 18;
  for (int i = 0; i < last; ++i)
    chain.add(
        linear(1, 64, i == 0 ? 1600 : 64, type, type, type, plain),
        {fmt::format("h{}", i), fmt::format("w_{}", i), fmt::format("wb_{}", i), "x_s", fmt::format("h{}", i + 1)});
  chain.add(linear(1, 40, 64, type, type, type, plain), {fmt::format("h{}", last), "w2", "wb2", "x_t", "y"});
  chain.check(0.02, {}, cuda::stream_ways());
}

// More words than a block has threads, in shares of several lengths.
TEST(CudaStream, ExchangesOfManyWords) {
  for (const int64_t lines : {2048, 3136}) {
    SCOPED_TRACE(lines);
    const DType type = DType::bf16;
    Chain chain;
    chain.add(linear(1, lines, 64, type, type, type, plain), {"x", "w1", "wb1", "x_r", "h"});
    chain.add(linear(1, 40, lines, type, type, type, plain), {"h", "w2", "wb2", "x_s", "y"});
    chain.check(0.01);
  }
}

// Several batches and rows, masks, columns that are no power of two, more keys than a chunk.
TEST(CudaStream, Attention) {
  AttentionCase one, group, rows, hidden;
  one.type = DType::bf16, one.queries = 1, one.keys = 200, one.depth = one.columns = 64;
  group.type = DType::f16, group.queries = 1, group.group = 7, group.keys = 33, group.depth = 24, group.columns = 64;
  rows.type = DType::bf16, rows.batch = 2, rows.queries = 4, rows.group = 3, rows.keys = 96, rows.safe = true;
  rows.depth = 128, rows.columns = 96;
  hidden.type = DType::bf16, hidden.queries = 1, hidden.kv_heads = 44, hidden.keys = 320;
  hidden.depth = hidden.columns = 32;
  for (const AttentionCase& c : {one, group, rows, hidden}) {
    SCOPED_TRACE(c.keys);
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) {
      // More chunks than splits: most of them have no key that the mask shows.
      if (c.keys == hidden.keys)
        return leaf * 0.3 + select(mask > 0.96, mask, -std::numeric_limits<double>::infinity());
      const Ex value = leaf * 0.3 + mask;
      return c.safe ? select(mask > 0.0, value, -std::numeric_limits<double>::infinity()) : value;
    };
    const int64_t width = c.kv_heads * c.group * c.columns, tokens = c.batch * c.queries;
    Chain chain;
    chain.add(attention(c, DType::f32, score), {"x_q", "x_k", "x_v", "x_mask", "mixed"});
    chain.add(linear(tokens, 40, width, c.type, c.type, c.type, plain), {"mixed", "w", "wb", "x_r", "y"});
    chain.check(0.01);
  }
}

// More chunks of keys to a split than a look of a warp finds at once: some splits have several that the mask shows,
// next to each other and far apart, others one or none. Queries come from other blocks. By threads, by tensor cores,
// and where each warp has keys of its own.
TEST(CudaStream, AttentionOfManyKeys) {
  AttentionCase threads, tiles, warps, many;
  threads.depth = 24, tiles.depth = 32, threads.columns = tiles.columns = 32;
  warps.depth = warps.columns = 64, warps.group = 2;
  many.type = DType::f16, many.depth = 32, many.columns = 128, many.group = 8, many.kv_heads = 44;
  for (AttentionCase c : {threads, tiles, warps, many}) {
    SCOPED_TRACE(fmt::format("{} {}", c.depth, c.columns));
    const bool wide = c.columns > 32;
    if (c.kv_heads != many.kv_heads) c.type = DType::bf16, c.kv_heads = 66;
    c.queries = 1, c.keys = 70 * 32 - 5;
    std::map<std::string, std::map<size_t, double>> given;
    for (const size_t key : {3, 70, 71, 130, 200, 260, 330, 1100, 2200, 2234, 40}) given["x_mask"][key] = 3;
    // Of these splits' chunks all are shown.
    for (size_t key = 0; wide && key < 2235; ++key)
      if (key / 32 % 2 == 0) given["x_mask"][key] = 3;
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) {
      return leaf * 0.3 + select(mask > 2, mask, -std::numeric_limits<double>::infinity());
    };
    const int64_t heads = c.kv_heads * c.group;
    Chain chain;
    chain.add(linear(1, heads * c.depth, 64, c.type, c.type, c.type, plain), {"x", "w1", "wb1", "x_r", "q"});
    chain.add(attention(c, DType::f32, score), {"q", "x_k", "x_v", "x_mask", "mixed"});
    chain.add(linear(1, 40, heads * c.columns, c.type, c.type, c.type, plain), {"mixed", "w2", "wb2", "x_s", "y"});
    chain.check(0.01, given);
  }
}

// Each warp has keys of its own, no mask says which are hidden, and infinite values stay infinite.
TEST(CudaStream, AttentionOfAllKeys) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::bf16, DType::f16}) {
    AttentionCase c;
    c.type = type, c.queries = 1, c.kv_heads = 22, c.group = 5, c.keys = 32 * 22 + 9, c.depth = c.columns = 64;
    std::map<std::string, std::map<size_t, double>> given;
    given["x_v"][static_cast<size_t>(100 * c.columns + 3)] = infinity;
    given["x_v"][static_cast<size_t>(701 * c.columns + 9)] = -infinity;
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.3 + mask; };
    Chain chain;
    chain.add(attention(c, DType::f32, score), {"x_q", "x_k", "x_v", "x_mask", "y_mixed"});
    chain.add(linear(1, 40, 64, type, type, type, plain), {"x", "w", "wb", "x_r", "y"});
    chain.check(0.01, given);
  }
}

// A row of each head, of a value of this step, or some of its elements, at a place in all keys or values
// [keys, heads, size].
Kernel put_row(int64_t keys, int64_t heads, int64_t size, DType type, int64_t some) {
  KernelBuilder b({heads, some});
  const TensorType all{type, {keys, heads, size}};
  const int row = b.input({type, {1, heads * size}}), at = b.input({DType::i64, {1}}), old = b.input(all);
  const int out = b.output(all, old);
  const Ex place = b.load(at, std::vector<Coord>{Coord(int64_t{0})});
  const std::vector<Coord> from{Coord(int64_t{0}), Coord(b.dim(0) * size + b.dim(1))};
  b.store(out, std::vector<Coord>{Coord(place), Coord(b.dim(0)), Coord(b.dim(1))}, b.load(row, from) * 0.75);
  return b.finish("put_row");
}
// The next place, or another one by what blocks exchange.
Kernel next_place(int64_t width, DType type) {
  KernelBuilder b({1});
  const int at = b.input({DType::i64, {1}}), row = b.input({type, {1, width}}), next = b.output({DType::i64, {1}});
  const std::vector<Coord> last{Coord(int64_t{0}), Coord(width - 1)};
  b.store_flat(next, b.select(b.load(row, last) > 1000.0, b.integer(0), b.load_flat(at) + b.integer(1)));
  return b.finish("next_place");
}

struct KeysCase {
  AttentionCase attention;
  bool own_place = false;        // the method makes it
  bool counted = false;          // in place of a mask the number of keys is given
  bool given_rows = false;       // it makes neither these nor queries: then a look is in the same text
  bool value_elsewhere = false;  // somebody else reads values
  bool in_part = false;          // rows are written in part
  Chain chain() const {
    const AttentionCase& c = attention;
    Chain chain;
    // Weights are small, and so are queries and keys: what a key is must be seen.
    const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) { return leaf * 60 + mask; };
    const auto made = [&](const std::string& name, int64_t width) {
      if (given_rows) return "x_" + name;
      chain.add(linear(1, width, 64, c.type, c.type, c.type, plain), {"x", "w" + name, "wb" + name, "x_r", name});
      return name;
    };
    const std::string k = made("k", c.kv_heads * c.depth), v = made("v", c.kv_heads * c.columns),
                      q = made("q", c.kv_heads * c.group * c.depth);
    if (own_place) chain.add(next_place(c.kv_heads * c.depth, c.type), {"x_at", k, "at"});
    const std::string at = own_place ? "at" : "x_at";
    const auto some = [&](int64_t size) { return in_part ? size / 2 : size; };
    chain.add(put_row(c.keys, c.kv_heads, c.depth, c.type, some(c.depth)), {k, at, "s_k", "s_k"});
    chain.add(put_row(c.keys, c.kv_heads, c.columns, c.type, some(c.columns)), {v, at, "s_v", "s_v"});
    if (counted)
      chain.add(counted_attention(), {q, "s_k", "s_v", "x_count", "mixed"});
    else
      chain.add(npusim::attention(c, DType::f32, score), {q, "s_k", "s_v", "x_mask", "mixed"});
    chain.add(linear(1, 40, c.kv_heads * c.group * c.columns, c.type, c.type, c.type, plain),
              {"mixed", "w2", "wb2", "x_s", "y"});
    if (value_elsewhere) chain.add(linear(1, 16, 64, c.type, c.type, c.type, plain), {"s_v", "w3", "wb3", "x_t", "y2"});
    return chain;
  }
  Kernel counted_attention() const {
    int32_t count = -1;
    Kernel k = npusim::attention(attention, DType::i64, [&](KernelBuilder& b, Ex leaf, Ex) {
      const Coord first(int64_t{0});
      count = b.load(3, std::vector<Coord>{first, first, first}).id;
      return leaf * 60;
    });
    auto contraction = std::make_shared<Contraction>(*k.contraction);
    auto score = std::make_shared<Score>(*contraction->score);
    score->keys = count;
    contraction->score = std::move(score);
    k.contraction = std::move(contraction);
    return k;
  }
};

// Keys and values come through the ring, in one chunk of each split and in several, of which a mask hides some, leaves
// some as they are, and takes some apart; this step's row is taken from where it was made, and stands among the others
// afterwards, also where it is hidden.
TEST(CudaStream, KeysOfThisStep) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  KeysCase one, several, wide, given_rows, counted, counted_several;
  one.attention.kv_heads = 2, one.attention.keys = 96;
  several.attention.kv_heads = 44, several.attention.keys = 32 * 3 * 6, several.attention.type = DType::f16;
  wide.attention.kv_heads = 66, wide.attention.keys = 32 * 2 * 2, wide.attention.columns = 128;
  given_rows.attention = several.attention, given_rows.given_rows = true;
  counted.attention = one.attention, counted.counted = true;
  counted_several.attention = several.attention, counted_several.counted = true;
  for (KeysCase* c : {&one, &several, &wide, &given_rows, &counted, &counted_several}) {
    AttentionCase& a = c->attention;
    SCOPED_TRACE(a.keys);
    a.queries = 1, a.group = 3, a.depth = 64;
    if (c != &wide) a.columns = 64;
    if (a.type == DType::f32) a.type = DType::bf16;
    const Chain chain = c->chain();
    Launch launch;
    EXPECT_NE(chain.text_of(launch).find("_fed_parts("), std::string::npos);
    std::vector<Chain::Given> all;
    for (const int64_t place : {int64_t{0}, int64_t{45}, a.keys - 1}) {
      Chain::Given& given = all.emplace_back();
      given["x_at"][0] = static_cast<double>(place);
      given["x_count"][0] = static_cast<double>(place + 1);
      // Behind the last key there is what must not be read.
      for (int64_t key = place + 1; c->counted && key < std::min(place + 41, a.keys); ++key)
        for (int64_t e = 0; e < a.kv_heads * a.depth; ++e)
          for (const char* name : {"s_k", "s_v"})
            given[name][static_cast<size_t>(key * a.kv_heads * a.depth + e)] = NAN;
      for (int64_t key = 0; key < a.keys; ++key) {
        const int64_t chunk = key / 32;
        given["x_mask"][static_cast<size_t>(key)] = chunk == 1 || (chunk % 7 == 5 && c != &one) ? -infinity
                                                    : chunk % 3 == 0                            ? 0
                                                    : key % 4 == 1                              ? -infinity
                                                                                                : 0.5;
      }
    }
    // Of 132 blocks each has one part of the keys, and the rows of its own.
    const bool by_all = c == &several || c == &counted_several;
    chain.check_each(0.01, all, cuda::stream_ways().first(1),
                     a.keys == 96 ? std::vector<unsigned>{1, 3, 7}
                     : by_all     ? std::vector<unsigned>{3, 132}
                                  : std::vector<unsigned>{3});
    Chain::Given outside;
    outside["x_at"][0] = static_cast<double>(a.keys);
    Memory memory = chain.memory_of(outside);
    Stream stream(launch, chain.text_of(launch), 3);
    EXPECT_NE(stream.run(memory, mslx::Order::forward), "");
  }
}

// A place that the method makes is not known when the ring is filled; values that somebody else reads are written where
// they belong, and so is what is no whole row.
TEST(CudaStream, KeysThatAreNotGiven) {
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    KeysCase c;
    c.own_place = which == 0, c.value_elsewhere = which == 1, c.in_part = which == 2;
    AttentionCase& a = c.attention;
    a.type = DType::bf16, a.kv_heads = 1, a.keys = 64, a.queries = 1, a.group = 3, a.depth = a.columns = 64;
    const Chain chain = c.chain();
    Launch launch;
    const std::string text = chain.text_of(launch);
    EXPECT_EQ(text.find("_fed_parts("), std::string::npos);
    // The place would be looked at before it is there.
    EXPECT_EQ(text.find("has_key(*") == std::string::npos, c.own_place);
    Chain::Given given;
    given["x_at"][0] = 40;
    chain.check(0.01, given, cuda::stream_ways().first(1), {1, 3, 33});
  }
}

// Of one key and of several, whose weights are exact numbers and others: infinity times a weight is infinity, and times
// that of a hidden key it is no number.
TEST(CudaStream, InfiniteValues) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::f16, DType::bf16})
    for (const bool one : {false, true}) {
      AttentionCase c;
      c.type = type, c.kv_heads = 1, c.group = 3, c.queries = 1, c.depth = c.columns = 32;
      std::map<std::string, std::map<size_t, double>> given;
      for (int64_t key = 0; key < c.keys; ++key)
        given["x_mask"][static_cast<size_t>(key)] = key == 5 || (!one && key % 3 == 0) ? 1 : 0;
      const auto value = [&](int64_t key, int64_t column) -> double& {
        return given["x_v"][static_cast<size_t>(key * c.columns + column)];
      };
      value(5, 0) = infinity, value(5, 1) = -infinity, value(5, 9) = 60000;
      value(5, 2) = infinity, value(36, 2) = one ? 3 : -infinity;
      value(4, 3) = infinity;
      const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) { return select(mask > 0.5, leaf, -infinity); };
      Chain chain;
      chain.add(attention(c, DType::f32, score), {"x_q", "x_k", "x_v", "x_mask", "y_mixed"});
      chain.add(linear(1, 40, 64, type, type, type, plain), {"x", "w", "wb", "x_r", "y"});
      chain.check(0.01, given);
    }
}

// Weights that caches hold, and products that are not streamed, are no slower as a launch for each step.
TEST(CudaStream, GainsWhereWeightsComeFromMemory) {
  const auto reason = [](int64_t width, bool other) {
    Chain chain;
    const DType type = DType::bf16;
    chain.add(linear(1, width, 1024, type, type, type, plain), {"x", "w1", "wb1", "x_r", "h"});
    chain.add(linear(1, 1024, width, type, type, type, plain), {"h", "w2", "wb2", "x_s", "y"});
    if (other) chain.add(linear(16, 64, 1024, type, type, type, plain), {"x_many", "w3", "wb3", "x_t", "y_many"});
    WholeMethod method;
    for (const Buffer& b : chain.program.buffers)
      method.uses.push_back(b.kind == BufferKind::weight  ? ValueUse::known
                            : b.kind == BufferKind::local ? ValueUse::inside
                                                          : ValueUse::outside);
    for (const Step& step : chain.program.methods[0].steps)
      method.steps.push_back({&chain.program.kernels[static_cast<size_t>(step.kernel)], step.buffers});
    EXPECT_EQ(cuda::cannot_stream(method), std::nullopt);
    return cuda::cannot_stream(method, true).value_or("");
  };
  EXPECT_EQ(reason(1 << 15, false), "");
  EXPECT_EQ(reason(1 << 10, false), "4194304 bytes of weights, which caches hold");
  EXPECT_EQ(reason(1 << 15, true), "1048576 multiplications of other products");
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
