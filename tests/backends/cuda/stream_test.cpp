// Methods as one launch, printed and executed on the CPU, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/codegen/stream/launch.h"
#include "backends/cuda/harness/features.h"
#include "backends/cuda/stream_chain.h"
#include "base/error.h"
#include "compiler/compile_for.h"
#include "kernel/contractions.h"

namespace npusim {
namespace {

// The build's target as far as the printed text, which is kept: no machine code, so nothing that compiles it is needed.
class TextTarget : public CodegenTarget {
 public:
  TextTarget() { config_ = target_->config(); }
  std::string refuse(const Kernel& kernel) const override { return target_->refuse(kernel); }
  Unfused in_parts(const Kernel& kernel) const override { return target_->in_parts(kernel); }
  Group group(std::span<const GroupStep>) const override { return {1}; }
  Whole launch_whole(const WholeMethod& method) const override {
    Whole whole;
    auto stream = cuda::codegen::stream::make_stream(method, {}, hopper, false, whole.declined);
    if (stream) whole = {std::make_shared<const cuda::codegen::stream::StreamLaunch>(std::move(*stream)), {}};
    reasons.push_back(whole.declined);
    return whole;
  }
  void plan(Program& program, const ProgramPlans& plans, std::vector<std::string>&) const override {
    program.code.push_back({{"cubin", "sm_90a", std::vector<std::byte>(1)}});
    const auto alone = std::make_shared<plan::GeneratedKernel>();
    alone->symbol = "alone", alone->shape = {1, 1};
    const auto functions = plan::fill_launches(
        program,
        [&](const Sequence& sequence, const Launch& launch, plan::LaunchPosition position) -> plan::LaunchedBy {
          const std::span steps = plan::steps_of(sequence, launch);
          if (!launch.together) return {alone, steps[0].buffers};
          const auto& decided = plans.methods[static_cast<size_t>(position.method)].launches[position.number];
          return launched_by(static_cast<const cuda::codegen::stream::StreamLaunch&>(*decided), steps);
        });
    for (const plan::LaunchedFunction& function : functions) {
      texts_of[function.made->symbol] = function.made->functions;
      for (Launch* launch : function.launches) launch->code = 0;
    }
    for (size_t m = 0; m < program.methods.size(); ++m) program.methods[m].declined = plans.methods[m].declined;
  }
  mutable std::map<std::string, std::string> texts_of;  // by symbol
  mutable std::vector<std::string> reasons;             // by method: why it is no stream

 private:
  std::shared_ptr<const CodegenTarget> target_ = open_target("cuda:sm_90a,stream");
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

// The program with nothing rounded to 16 bits: what it is meant to compute.
Program wide_program(Program program) {
  const auto widen = [](DType& dtype) {
    if (dtype == DType::bf16 || dtype == DType::f16) dtype = DType::f32;
  };
  const auto widen_all = [&](std::vector<Expr>& exprs) {
    for (Expr& e : exprs)
      if (e.op == ExprOp::round_to) widen(e.dtype);
  };
  for (Buffer& b : program.buffers) widen(b.type.dtype);
  for (Kernel& k : program.kernels) {
    for (KernelArg& arg : k.args) widen(arg.dtype);
    widen_all(k.exprs);
    if (!k.contraction || !k.contraction->score) continue;
    auto score = std::make_shared<Score>(*k.contraction->score);
    widen_all(score->exprs);
    auto contraction = std::make_shared<Contraction>(*k.contraction);
    contraction->score = std::move(score);
    k.contraction = std::move(contraction);
  }
  return program;
}

// A buffer's values in the dtype that it has in the wide program.
std::vector<std::byte> widened(const Buffer& narrow, const Buffer& wide, const std::vector<std::byte>& values) {
  const DType from = narrow.type.dtype, to = wide.type.dtype;
  if (from == to) return values;
  std::vector<std::byte> out(elements_of(narrow) * dtype_size(to) + 16);
  for (size_t i = 0; i < elements_of(narrow); ++i)
    put(out.data() + i * dtype_size(to), to, number(values.data() + i * dtype_size(from), from));
  return out;
}

void check_method(const Program& program, const Method& method, const TextTarget& target,
                  const std::vector<int64_t>& positions) {
  SCOPED_TRACE(method.name);
  ASSERT_EQ(method.launches.size(), 1U);
  const Launch& launch = method.launches[0];
  ASSERT_TRUE(launch.together);
  const Program wide = wide_program(program);
  Memory expected = first_memory(program, 7), exact;
  for (size_t b = 0; b < expected.size(); ++b)
    exact.push_back(widened(program.buffers[b], wide.buffers[b], expected[b]));
  interpret(program, program.recipes, expected);
  interpret(wide, wide.recipes, exact);
  // Of 33 blocks each has one part of an attention's keys at most, of a few several.
  Memory three = expected, five = expected, many = expected;
  const std::string& text = target.texts_of.at(launch.symbol);
  Stream by_three(launch, text, 3), by_five(launch, text, 5), by_many(launch, text, 33);
  ASSERT_EQ(by_three.error(), "");
  const auto wide_distance = [&](size_t b, const Memory& memory) {
    return distance(wide.buffers[b], widened(program.buffers[b], wide.buffers[b], memory[b]), exact[b]);
  };
  for (int64_t position : positions) {
    for (Memory* memory : {&expected, &three, &five, &many}) set_inputs(program, method, position, *memory);
    set_inputs(wide, method, position, exact);
    interpret(program, method, expected);
    interpret(wide, method, exact);
    ASSERT_EQ(by_three.run(three, mslx::Order::forward), "");
    ASSERT_EQ(by_five.run(five, mslx::Order::random), "");
    ASSERT_EQ(by_many.run(many, mslx::Order::reverse), "");
    for (const TensorSpec& output : method.outputs) {
      const auto b = static_cast<size_t>(output.buffer);
      EXPECT_EQ(three[b], five[b]) << output.name << " at " << position;
      EXPECT_EQ(three[b], many[b]) << output.name << " at " << position;
      // A last bit of a sum decides which way the casts behind it round, and what follows goes with it: the two may be
      // as far from each other as each is from the exact answer, but the stream is no farther from that.
      const double theirs = wide_distance(b, expected), ours = wide_distance(b, three);
      EXPECT_LE(ours, 1.25 * theirs) << output.name << " at " << position;
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

// Prefills have too many rows; methods that loop on their own output know how many keys there are.
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
      EXPECT_NE(method.declined.find(" rows, not up to"), std::string::npos) << method.declined;
      continue;
    }
    ++streams;
    EXPECT_NE(target.texts_of.at(method.launches[0].symbol).find("_ring_parts("), std::string::npos);
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
    const std::string ir = fmt::format("{}/tests/backends/cuda/decode/{}.json", NPUSIM_SOURCE_DIR, model);
    const auto program = compile_for(target, {{"decode", ir, {}}}, options).program;
    ASSERT_EQ(program->methods.size(), 4U);  // and those whose tokens are drawn
    check_method(*program, program->methods[0], target, {0, 1, 63});
    check_method(*program, program->methods[1], target, {0, 1, 2});  // goes on by itself
  }
}

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

// Weights for which the ring goes round several times, in pieces of different sizes.
TEST(CudaStream, WeightsOfManyLaps) {
  const DType type = DType::bf16;
  Chain chain;
  const auto add = [&](const std::string& x, int64_t lines, int64_t depth, const std::string& y) {
    chain.add(linear(1, lines, depth, type, type, type, plain), {x, "w" + y, "wb" + y, "x_" + y, y});
  };
  add("x", 64, 64, "s1"), add("s1", 64, 64, "s2"), add("s2", 64, 64, "s3"), add("s3", 64, 64, "s4");
  add("s4", 448, 64, "h"), add("h", 1005, 448, "few"), add("h", 500, 448, "other");
  chain.check(0.01);
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

// Rows that every block computes for itself, of a warp each and of a thread for each point: those that have nothing to
// do with each other are different warps', and do not meet.
TEST(CudaStream, RowsSideBySide) {
  const DType type = DType::bf16;
  Chain chain;
  const auto product = [&](const std::string& x, int64_t lines, int64_t depth, const std::string& y) {
    chain.add(linear(1, lines, depth, type, type, type, plain), {x, "w" + y, "wb" + y, "x_r", y});
  };
  const std::vector<std::pair<std::string, int64_t>> all = {{"a", 4}, {"b", 1}, {"c", 2}};
  for (const auto& [name, heads] : all) product("x", heads * 64, 64, name);
  for (const auto& [name, heads] : all) {
    KernelBuilder b({heads, 64});
    const int from = b.input({type, {heads, 64}}), to = b.output({type, {heads, 64}});
    b.store(to, b.load_broadcast(from) * 0.5);
    chain.add(name == "b" ? b.finish("halves") : normed_heads(heads, 64, type), {name, name + "_row"});
  }
  for (const auto& [name, heads] : all) product(name + "_row", 40, heads * 64, "y_" + name);
  Launch launch;
  const std::string text = chain.text_of(launch);
  const std::string rows[] = {"if (threadIdx.x >= 0 && threadIdx.x < 128) {",
                              "if (threadIdx.x >= 128 && threadIdx.x < 192) {",
                              "if (threadIdx.x >= 192 && threadIdx.x < 256) {"};
  for (const std::string& row : rows) EXPECT_EQ(count_of(text, row), 1) << row;
  const size_t first = text.find(rows[0]), last = text.find(rows[2]);
  EXPECT_EQ(count_of(text.substr(first, last - first), "meet_block();"), 0);
  chain.check(0.01, {}, cuda::codegen::stream::stream_candidates().first(1), {1, 3, 8});
}

// Timing chooses among candidates that give the same bits. Depths of one piece and of several, more of both than the
// ring has room for, and more matrices and biases than the producer's lanes have at once.
TEST(CudaStream, CandidatesGiveTheSameBits) {
  const DType type = DType::bf16;
  Chain chain;
  chain.add(linear(1, 1600, 1536, type, type, type, plain), {"x", "w1", "wb1", "x_r", "h0"});
  constexpr int last = 18;
  for (int i = 0; i < last; ++i)
    chain.add(
        linear(1, 64, i == 0 ? 1600 : 64, type, type, type, plain),
        {fmt::format("h{}", i), fmt::format("w_{}", i), fmt::format("wb_{}", i), "x_s", fmt::format("h{}", i + 1)});
  chain.add(linear(1, 40, 64, type, type, type, plain), {fmt::format("h{}", last), "w2", "wb2", "x_t", "y"});
  chain.check(0.02, {}, cuda::codegen::stream::stream_candidates());
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
    std::string why;
    EXPECT_TRUE(cuda::codegen::stream::make_stream(method, {}, hopper, false, why)) << why;
    return cuda::codegen::stream::make_stream(method, {}, hopper, true, why) ? "" : why;
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
