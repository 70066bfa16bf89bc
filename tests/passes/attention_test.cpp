// Masked attention whose keys or values are no finite numbers: a weight of zero does not make up for them.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "passes/run_graph.h"

namespace npusim {
namespace {

using test::GraphRun;
using test::run_graph;

constexpr int64_t heads = 2, keys = 280, depth = 8;

enum class Mask { floats, booleans, causal, decomposed, lowest };

std::string graph(Mask mask, int64_t queries, DType dtype = DType::f32) {
  const std::string type(dtype_name(dtype));
  const std::string scores = fmt::format("{}[1, {}, {}, {}]", type, heads, queries, keys);
  std::string text =
      fmt::format("input %q: {4}[1, {0}, {1}, {3}]\ninput %k: {4}[1, {0}, {2}, {3}]\ninput %v: {4}[1, {0}, {2}, {3}]\n",
                  heads, queries, keys, depth, type);
  if (mask != Mask::causal)
    text += fmt::format("input %m: {}[1, 1, {}, {}]\n", mask == Mask::booleans ? "bool" : type, queries, keys);
  const std::string result = fmt::format("%y: {}[1, {}, {}, {}] = ", type, heads, queries, depth);
  if (mask == Mask::decomposed || mask == Mask::lowest)
    return text + fmt::format(
                      "%t: {5}[1, {1}, {3}, {2}] = aten.transpose.int(%k, dim0=2, dim1=3)\n"
                      "%s: {0} = aten.matmul.default(%q, %t)\n%c: {0} = aten.mul.Tensor(%s, 0.35)\n"
                      "%a: {0} = aten.add.Tensor(%c, %m)\n%w: {0} = aten.softmax.int(%a, dim=-1)\n"
                      "{4}aten.matmul.default(%w, %v)\noutput %y\n",
                      scores, heads, keys, depth, result, type);
  return text + result +
         fmt::format("aten.scaled_dot_product_attention.default(%q, %k, %v, {})\noutput %y\n",
                     mask == Mask::causal ? "None, is_causal=true" : "%m");
}

HostTensor mask_tensor(Mask mask, int64_t queries, int64_t kept) {
  const double off = mask == Mask::booleans ? 0
                     : mask == Mask::lowest ? std::numeric_limits<float>::lowest()
                                            : -std::numeric_limits<double>::infinity();
  std::vector<double> values;
  for (int64_t i = 0; i < queries * keys; ++i) values.push_back(i % keys < kept ? mask == Mask::booleans : off);
  return test::tensor_of({mask == Mask::booleans ? DType::boolean : DType::f32, {1, 1, queries, keys}}, values);
}

// Smooth numbers with one element replaced.
HostTensor with(int64_t key, double value, DType dtype = DType::f32) {
  std::vector<double> values;
  for (int64_t i = 0; i < heads * keys * depth; ++i) values.push_back(std::sin(static_cast<double>(i)));
  if (key >= 0) values[static_cast<size_t>((keys + key) * depth + 3)] = value;  // of the second head
  return test::tensor_of({dtype, {1, heads, keys, depth}}, values);
}

TEST(MaskedAttention, KeepsWhatIsNotFinite) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (Mask mask : {Mask::floats, Mask::booleans, Mask::causal, Mask::decomposed, Mask::lowest})
    for (int64_t queries : {1, 9})
      for (int64_t key : {60, 279})  // in a tile with keys that count, and in one without
        for (double value : {nan, inf, -inf})
          for (bool in_values : {false, true})
            for (const std::set<std::string>& disabled : {std::set<std::string>{}, {"attention"}}) {
              if (!disabled.empty() && (value < 0 || queries == 1)) continue;
              SCOPED_TRACE(fmt::format("mask {}, {} queries, key {}, {} in {}", static_cast<int>(mask), queries, key,
                                       value, in_values ? "values" : "keys"));
              test::RunOptions options{.disabled = disabled};
              options.given["k"] = with(in_values ? -1 : key, value);
              options.given["v"] = with(in_values ? key : -1, value);
              if (mask != Mask::causal) options.given["m"] = mask_tensor(mask, queries, 40);
              const GraphRun run = run_graph(graph(mask, queries), options);
              ASSERT_EQ(run.outputs.size(), 1U);
              EXPECT_EQ(run.fusions.contains("attention"), disabled.empty());
              const std::vector<double> y = test::values_of(run.outputs[0]);
              EXPECT_TRUE(std::isfinite(y[3]));  // of the first head
              const bool lost = std::isfinite(y[static_cast<size_t>(queries * depth + 3)]);
              EXPECT_FALSE(lost && (std::isnan(value) || in_values));
            }
}

TEST(MaskedAttention, KeepsWhatIsNotFiniteIn16Bits) {
  for (DType dtype : {DType::f16, DType::bf16})
    for (int64_t queries : {1, 9})
      for (bool in_values : {false, true}) {
        test::RunOptions options{.dtype = dtype};
        options.given["k"] = with(in_values ? -1 : 279, std::numeric_limits<double>::infinity(), dtype);
        options.given["v"] = with(in_values ? 279 : -1, std::numeric_limits<double>::infinity(), dtype);
        options.given["m"] = mask_tensor(Mask::booleans, queries, 40);
        EXPECT_TRUE(run_graph(graph(Mask::booleans, queries, dtype), options).fusions.contains("attention"));
      }
}

TEST(MaskedAttention, AMaskThatIsNoNumberCounts) {
  for (int64_t queries : {1, 7}) {
    test::RunOptions options;
    HostTensor mask = mask_tensor(Mask::floats, queries, 40);
    store_double(mask.data.data(), DType::f32, 200, std::numeric_limits<double>::quiet_NaN());
    options.given["m"] = mask;
    run_graph(graph(Mask::floats, queries), options);
  }
}

// Both results of one kernel: of heads in any order, with masks of every form, in every float.
TEST(Attention, GivesTheLogOfItsSums) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (int64_t queries : {1, 3, 70})
      for (int64_t count : {2, 40, 300})
        for (const char* mask : {"None", "None, is_causal=true", "%m"}) {
#ifdef NPUSIM_SANITIZED
          if (dtype != DType::f32 && queries * count > 1000) continue;  // minutes for the interpreter
#endif
          const std::string type(dtype_name(dtype));
          SCOPED_TRACE(fmt::format("{}, {} queries, {} keys, {}", type, queries, count, mask));
          const std::string text = fmt::format(
              "input %a: {0}[2, {1}, 3, 8]\ninput %b: {0}[2, 3, {2}, 8]\ninput %v: {0}[2, 3, {2}, 8]\n{4}"
              "%q: {0}[2, 3, {1}, 8] = aten.permute.default(%a, dims=[0, 2, 1, 3])\n"
              "%y: {0}[2, 3, {1}, 8], %l: float32[2, 3, {1}] = "
              "aten._scaled_dot_product_flash_attention_for_cpu.default(%q, %b, %v, {3})\n"
              "%z: float32[2, 3, {1}] = aten.mul.Tensor(%l, 2.0)\noutput %y\noutput %l\noutput %z\n",
              type, queries, count, mask,
              mask[0] == '%' ? fmt::format("input %m: {}[1, 1, {}, {}]\n", type, queries, count) : "");
          const GraphRun run = run_graph(text, {.dtype = dtype});
          EXPECT_TRUE(run.fusions.contains("attention"));
          EXPECT_EQ(run.steps(), 2U);
        }
}

// What reads the weights beside the product keeps them.
TEST(Attention, WeightsThatAreReadElsewhereAreComputed) {
  for (const char* reader : {"aten.lt.Tensor(%p, %o)", "aten.lt.Tensor(%o, %s)"})
    run_graph(
        fmt::format("input %q: float32[2, 4, 4]\ninput %k: float32[2, 4, 4]\ninput %v: float32[2, 4, 4]\n"
                    "%s: float32[2, 4, 4] = aten.matmul.default(%q, %k)\n"
                    "%p: float32[2, 4, 4] = aten.softmax.int(%s, dim=-1)\n"
                    "%o: float32[2, 4, 4] = aten.matmul.default(%p, %v)\n%y: bool[2, 4, 4] = {}\noutput %y\n",
                    reader));
}

}  // namespace
}  // namespace npusim
