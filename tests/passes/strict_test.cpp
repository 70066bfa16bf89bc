// Where rounding happens (docs/numerics.md): strict programs give the bits of the reference, which rounds every value
// of the IR to its dtype; the others round once per kernel. Numbers are chosen so that nothing else rounds.
#include <fmt/format.h>

#include <random>

#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;
using test::RunOptions;
using test::tensor_of;
using test::values_of;

// Whole numbers in [-limit, limit]: products and sums of them are exact in float32 and too long for 16 bits.
HostTensor whole(DType dtype, const Shape& shape, int limit, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (double& x : values) x = static_cast<double>(random() % static_cast<unsigned>(2 * limit + 1)) - limit;
  return tensor_of({dtype, shape}, values);
}

bool same_bits(const GraphRun& run) {
  bool same = run.outputs.size() == run.expected.size();
  for (size_t i = 0; same && i < run.outputs.size(); ++i) same = run.outputs[i].data == run.expected[i].data;
  return same;
}

// `text` with T[…] for tensors of the dtype: bit for bit the reference under strict numerics, and not without (or the
// case shows nothing).
void check_strict(const std::string& text, const std::map<std::string, std::pair<Shape, int>>& given) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::string typed = text;
    for (size_t at = typed.find("T["); at != std::string::npos; at = typed.find("T[", at))
      typed.replace(at, 1, dtype_name(dtype));
    RunOptions options{.dtype = dtype, .strict = true, .tolerance = 0.1};
    unsigned seed = 7;
    for (const auto& [name, value] : given) options.given[name] = whole(dtype, value.first, value.second, ++seed);
    const GraphRun strict = run_graph(typed, options);
    EXPECT_TRUE(same_bits(strict)) << dtype_name(dtype);
    options.strict = false;
    const GraphRun fused = run_graph(typed, options);
    EXPECT_FALSE(same_bits(fused)) << dtype_name(dtype);
    EXPECT_LE(fused.steps(), strict.steps());
  }
}

TEST(Strict, ChainsRoundAtEveryOperator) {
  check_strict(
      "input %x: T[5, 33]\ninput %y: T[5, 33]\n"
      "%a: T[5, 33] = aten.mul.Tensor(%x, %y)\n"
      "%b: T[5, 33] = aten.add.Tensor(%a, %y)\n"
      "%c: T[5, 33] = aten.relu.default(%b)\n"
      "%d: T[5, 33] = aten.sub.Tensor(%c, %a)\n"
      "output %d\n",
      {{"x", {{5, 33}, 120}}, {"y", {{5, 33}, 120}}});
}

TEST(Strict, ViewsBetweenKeepTheRounding) {
  check_strict(
      "input %x: T[4, 6]\ninput %y: T[4, 6]\n"
      "%a: T[4, 6] = aten.mul.Tensor(%x, %y)\n"
      "%t: T[6, 4] = aten.transpose.int(%a, dim0=0, dim1=1)\n"
      "%v: T[3, 8] = aten.reshape.default(%t, shape=[3, 8])\n"
      "%b: T[3, 8] = aten.mul.Tensor(%v, 3.0)\n"
      "output %b\n",
      {{"x", {{4, 6}, 120}}, {"y", {{4, 6}, 120}}});
}

TEST(Strict, EpiloguesRoundTheProductFirst) {
  for (const char* rows : {"3", "64"}) {
    const int64_t n = std::stoll(rows);
    check_strict(fmt::format("input %x: T[{0}, 32]\ninput %r: T[{0}, 16]\n"
                             "weight %w: T[16, 32] = \"w\"\n"
                             "%l: T[{0}, 16] = aten.linear.default(%x, %w, None)\n"
                             "%a: T[{0}, 16] = aten.add.Tensor(%l, %r)\n"
                             "%m: T[{0}, 16] = aten.mul.Tensor(%a, 3.0)\n"
                             "%y: T[{0}, 16] = aten.relu.default(%m)\n"
                             "output %y\n",
                             rows),
                 {{"x", {{n, 32}, 30}}, {"r", {{n, 16}, 100}}, {"w", {{16, 32}, 30}}});
  }
}

TEST(Strict, ResidualsOfConvolutionsRoundTheirSum) {
  check_strict(
      "input %x: T[1, 16, 6, 6]\ninput %r: T[1, 16, 6, 6]\n"
      "weight %w: T[16, 16, 3, 3] = \"w\"\n"
      "%c: T[1, 16, 6, 6] = aten.conv2d.default(%x, %w, None, padding=[1, 1])\n"
      "%a: T[1, 16, 6, 6] = aten.add.Tensor(%c, %r)\n"
      "%y: T[1, 16, 6, 6] = aten.relu.default(%a)\n"
      "output %y\n",
      {{"x", {{1, 16, 6, 6}, 20}}, {"r", {{1, 16, 6, 6}, 100}}, {"w", {{16, 16, 3, 3}, 20}}});
}

TEST(Strict, RowsRoundWhatTheyReduce) {
  check_strict(
      "input %x: T[7, 24]\ninput %y: T[7, 24]\n"
      "%p: T[7, 24] = aten.mul.Tensor(%x, %y)\n"
      "%s: T[7, 1] = aten.amax.default(%p, dim=[1], keepdim=true)\n"
      "%d: T[7, 24] = aten.sub.Tensor(%p, %s)\n"
      "output %d\n",
      {{"x", {{7, 24}, 120}}, {"y", {{7, 24}, 120}}});
}

// Attention keeps its weights in float32: where the IR rounds them to 16 bits it is not used.
TEST(Strict, AttentionRoundsItsWeights) {
  const std::string text =
      "input %q: {0}[2, 5, 4]\ninput %k: {0}[2, 4, 6]\ninput %v: {0}[2, 6, 4]\n"
      "%s: {0}[2, 5, 6] = aten.matmul.default(%q, %k)\n"
      "%p: {0}[2, 5, 6] = aten.softmax.int(%s, dim=-1)\n"
      "%y: {0}[2, 5, 4] = aten.matmul.default(%p, %v)\n"
      "output %y\n";
  for (const char* dtype : {"float16", "bfloat16"}) {
    const std::string typed = fmt::format(fmt::runtime(text), dtype);
    EXPECT_FALSE(run_graph(typed, {.strict = true}).fusions.contains("attention"));
    EXPECT_TRUE(run_graph(typed, {.dtype = *parse_dtype(dtype), .tolerance = 0.02}).fusions.contains("attention"));
  }
  EXPECT_TRUE(run_graph(fmt::format(fmt::runtime(text), "float32"), {.strict = true}).fusions.contains("attention"));
}

// A folded batch norm rounds its weights, not its values.
TEST(Strict, BatchNormsStay) {
  const std::string text =
      "input %x: float32[1, 3, 5, 5]\n"
      "weight %w: float32[4, 3, 3, 3] = \"w\"\n"
      "weight %scale: float32[4] = \"s\"\nweight %shift: float32[4] = \"b\"\n"
      "weight %mean: float32[4] = \"m\"\nweight %var: float32[4] = \"v\"\n"
      "%c: float32[1, 4, 5, 5] = aten.conv2d.default(%x, %w, None, padding=[1, 1])\n"
      "%y: float32[1, 4, 5, 5] = aten.batch_norm.default(%c, %scale, %shift, %mean, %var, training=false, "
      "momentum=0.1, eps=0.001, cudnn_enabled=false)\noutput %y\n";
  EXPECT_TRUE(run_graph(text).fusions.contains("conv_bn"));
  EXPECT_FALSE(run_graph(text, {.strict = true}).fusions.contains("conv_bn"));
}

// Without strict numerics a value inside a fusion is not rounded: 2^-9 beside 1 is lost in bfloat16 only when stored.
TEST(Fused, ValuesInsideAFusionAreNeverRounded) {
  const std::string text =
      "input %x: bfloat16[2]\n"
      "%a: bfloat16[2] = aten.add.Tensor(%x, 0.001953125)\n"
      "%b: bfloat16[2] = aten.sub.Tensor(%a, 1.0)\n"
      "output %b\n";
  RunOptions options{.dtype = DType::bf16, .tolerance = 1, .given = {{"x", tensor_of({DType::bf16, {2}}, {1, 3})}}};
  EXPECT_EQ(values_of(run_graph(text, options).outputs[0])[0], 0x1p-9);
  options.strict = true;
  EXPECT_EQ(values_of(run_graph(text, options).outputs[0])[0], 0);
}

// What several kernels read is stored, and so rounded, once.
TEST(Fused, StoredValuesAreRounded) {
  const GraphRun run = run_graph(
      "input %x: bfloat16[2]\n"
      "%a: bfloat16[2] = aten.add.Tensor(%x, 0.001953125)\n"
      "output %a\n",
      {.dtype = DType::bf16, .tolerance = 1, .given = {{"x", tensor_of({DType::bf16, {2}}, {1, 3})}}});
  EXPECT_EQ(values_of(run.outputs[0])[0], 1);
}

// Strict numerics change no dtypes: a float32 model stays one whatever compute dtype is asked for.
TEST(Strict, ChangesNoDtypes) {
  const GraphRun run = run_graph(
      "input %x: float32[2, 8]\nweight %w: float32[8, 8] = \"w\"\n"
      "%a: float32[2, 8] = aten.linear.default(%x, %w, None)\n"
      "%s: float32[2, 8] = aten.softmax.int(%a, dim=1)\n"
      "%b: float32[2, 8] = aten.linear.default(%s, %w, None)\n"
      "output %b\n",
      {.dtype = DType::f16, .strict = true});
  for (const Buffer& b : run.program->buffers) EXPECT_EQ(b.type.dtype, DType::f32) << b.name;
}

}  // namespace
}  // namespace npusim
