// Methods that the compiler adds to a text's: they write what the plain ones write, whatever the mask.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "compiler/ir.h"
#include "kernel/evaluate.h"
#include "program/program.h"
#include "text/generate.h"
#include "text/sample.h"

namespace npusim {
namespace {

constexpr int64_t capacity = 16;
constexpr std::array<Mask, 4> masks = {Mask::added, Mask::booleans, Mask::ones, Mask::none};

CompileResult compile_text(Mask mask, const std::vector<int64_t>& lengths, bool sum = false) {
  std::vector<MethodSource> sources;
  for (const int64_t length : lengths)
    sources.push_back(text_ir(mask, length, 0, sum).finish("read_" + std::to_string(length)));
  sources.push_back(text_ir(mask, 1, capacity, sum).finish("decode"));
  CompileOptions options;
  options.dtype = "float32";
  options.text = true;
  return compile(sources, options);
}

Session open(const CompileResult& result) {
  return Session(result.program, {.weights = text_weights(), .devices = {}, .threads = 1});
}

std::vector<int64_t> prompt_of(int64_t length) {
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back((i * 7 + length) % vocabulary);
  return prompt;
}

std::vector<int64_t> write(Session& session, const TextFacts& text, int64_t prompt, int64_t count) {
  GenerateOptions options;
  options.max_new_tokens = count;
  return generate(session, text, prompt_of(prompt), options, [](int64_t) {}).tokens;
}

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Token by token through decode is the reference; then greedy alone, then each way of reading a prompt.
TEST(TextMethods, WriteWhatDecodeWrites) {
  for (const Mask mask : masks) {
    const CompileResult result = compile_text(mask, {8, 4});
    EXPECT_EQ(method_names(*result.program),
              (std::vector<std::string>{"read_8", "read_4", "decode", "prompt", "read_4_prompt", "greedy", "sample",
                                        "nucleus"}));
    // What decode is given as a mask for each query becomes a number of keys.
    const bool bounded = mask == Mask::added || mask == Mask::booleans;
    EXPECT_EQ(result.program->methods[5].fusions.contains("bound_keys"), bounded);
    Session session = open(result);
    const TextFacts& text = text_facts(*result.program);
    EXPECT_EQ(text.capacity, capacity);
    EXPECT_EQ(text.prefills, (std::vector<int32_t>{4, 3}));
    EXPECT_EQ(text.decode, 2);
    EXPECT_EQ(text.greedy, 5);
    TextFacts plain = text, greedy = text, reading = text, longest = text;
    plain.prefills.clear();
    plain.greedy = -1;
    greedy.prefills.clear();
    reading.greedy = -1;
    longest.prefills.erase(longest.prefills.begin());
    std::set<int64_t> seen;
    for (int64_t length = 1; length <= capacity; ++length) {
      const std::vector<int64_t> expected = write(session, plain, length, 12);
      EXPECT_EQ(expected.size(), std::min<size_t>(12, static_cast<size_t>(capacity + 1 - length)));
      seen.insert(expected.begin(), expected.end());
      for (const TextFacts* other : std::initializer_list<const TextFacts*>{&greedy, &reading, &text, &longest})
        EXPECT_EQ(write(session, *other, length, 12), expected) << static_cast<int>(mask) << " " << length;
    }
    EXPECT_GT(seen.size(), 3U);  // it does say something
  }
}

// The first of equals, and NaN before all, wherever they lie in the parts that are looked through.
TEST(TextMethods, TheFirstOfTheLikeliest) {
  const CompileResult result = compile_text(Mask::none, {});
  const std::vector<Kernel>& kernels = result.program->kernels;
  const auto find = [&](const char* name) -> const Kernel& {
    return *std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.name == name; });
  };
  const Kernel &parts = find("likeliest"), &choice = find("next_token");
  ASSERT_EQ(parts.space, (Shape{6, 4}));
  const auto chosen = [&](std::vector<float> logits) {
    std::vector<float> tops(6);
    std::vector<int64_t> tokens(6), token{-1};
    void* const looked_at[] = {logits.data(), tops.data(), tokens.data()};
    evaluate(parts, looked_at);
    void* const chosen_from[] = {tops.data(), tokens.data(), token.data(), token.data()};
    evaluate(choice, chosen_from);
    return token[0];
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits(vocabulary, -infinity);
  EXPECT_EQ(chosen(logits), 0);
  logits[23] = -3;
  EXPECT_EQ(chosen(logits), 23);
  logits[18] = logits[9] = logits[11] = 2;
  EXPECT_EQ(chosen(logits), 9);
  logits[5] = infinity;
  EXPECT_EQ(chosen(logits), 5);
  logits[22] = logits[13] = nan;
  EXPECT_EQ(chosen(logits), 13);
}

// The method that draws its tokens takes those that the host takes from decode's logits, token by token, with a prompt
// read by a prefill and without; near 0 and at 0 it takes the likeliest.
TEST(TextMethods, DrawsWhatTheHostDraws) {
  const CompileResult result = compile_text(Mask::added, {4});
  Session session = open(result);
  const TextFacts& text = text_facts(*result.program);
  ASSERT_GE(text.sample, 0);
  TextFacts host = text, unread = text;
  host.greedy = host.sample = host.nucleus = -1;
  unread.prefills.clear();
  const auto draw = [&](const TextFacts& facts, double temperature, double top_p, uint64_t seed) {
    const GenerateOptions options{10, temperature, top_p, seed, {}};
    return generate(session, facts, prompt_of(3), options, [](int64_t) {}).tokens;
  };
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<int64_t> found = draw(text, 0.8, 1, seed << 31);
    EXPECT_EQ(found, draw(host, 0.8, 1, seed << 31)) << seed;
    EXPECT_EQ(found, draw(unread, 0.8, 1, seed << 31)) << seed;
    seen.insert(found);
  }
  EXPECT_GT(seen.size(), 20U);
  const std::vector<int64_t> greedy = write(session, text, 3, 10);
  EXPECT_EQ(draw(text, 1e-7, 1, 5), greedy);
  EXPECT_EQ(draw(text, 3, 1e-9, 5), greedy);  // of one token
}

TEST(TextMethods, DrawsWithTheProbabilitiesOfLogits) {
  const std::vector<double> logits = {1, -2, 0.5, 2, -INFINITY};
  const int draws = 40000;
  for (const double temperature : {0.5, 1.0, 3.0})
    for (const double top_p : {1.0, 0.7}) {
      std::vector<double> weights;
      for (const double x : logits) weights.push_back(std::exp(x / temperature));
      std::vector<double> order = weights;
      std::sort(order.rbegin(), order.rend());
      const double all = std::accumulate(order.begin(), order.end(), 0.0);
      double kept = 0, least = 0;
      for (const double w : order)
        if (kept < top_p * all) kept += least = w;
      std::vector<int> count(logits.size());
      for (int n = 0; n < draws; ++n) ++count[static_cast<size_t>(draw_token(logits, temperature, top_p, 7, n))];
      for (size_t i = 0; i < logits.size(); ++i) {
        const double p = weights[i] >= least && weights[i] > 0 ? weights[i] / kept : 0;
        EXPECT_NEAR(count[i], p * draws, 4.5 * std::sqrt(draws * p * (1 - p)) + 1e-9)
            << i << " at " << temperature << ", " << top_p;
      }
    }
}

// A state that has seen every token must not see padding, nor the text before.
TEST(TextMethods, WithoutPositionsNothingIsPadded) {
  const CompileResult result = compile_text(Mask::added, {8, 4}, true);
  Session session = open(result);
  const TextFacts& text = text_facts(*result.program);
  EXPECT_FALSE(text.by_position);
  ASSERT_EQ(text.prefills.size(), 2U);
  EXPECT_EQ(text.capacity, capacity);
  TextFacts plain = text;
  plain.prefills.clear();
  plain.greedy = -1;
  const auto sum_after = [&](const TextFacts& facts, int64_t prompt) {
    const std::vector<int64_t> tokens = write(session, facts, prompt, 12);
    return std::pair(tokens, floats(session.output("decode", "sum")));
  };
  for (int64_t length = 1; length <= capacity; ++length) {
    const auto [expected, sum] = sum_after(plain, length);
    const auto [found, found_sum] = sum_after(text, length);
    EXPECT_EQ(found, expected) << length;
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(found_sum[i], sum[i], 1e-4) << length;
  }
  // With padding, and on top of another text, the sum is another one.
  const std::vector<float> sum = sum_after(text, 3).second;
  TextFacts padded = text;
  padded.by_position = true;
  EXPECT_GT(std::abs(sum_after(padded, 3).second[0] - sum[0]), 1e-2);
}

// The shortest prefill that takes the prompt, else the longest: it fills as many rows.
TEST(TextMethods, TheShortestPrefillThatFits) {
  const CompileResult result = compile_text(Mask::added, {8, 4});
  const TextFacts& text = text_facts(*result.program);
  for (const auto& [prompt, rows] : {std::pair<int64_t, size_t>{1, 4}, {4, 4}, {5, 8}, {8, 8}, {11, 11}}) {
    Session session = open(result);
    write(session, text, prompt, 1);
    const std::vector<float> keys = floats(session.output("decode", "k_cache_0"));  // [1, 2, 16, 4]
    for (size_t row = 0; row < capacity; ++row) EXPECT_EQ(keys[row * 4] != 0, row < rows) << prompt << " " << row;
  }
}

// Of any token, for any mask: the logits that the plain prefill has of it, and the same states. Of the last layer only
// keys and values are computed of all tokens.
TEST(TextMethods, PromptsHaveTheLogitsOfOneToken) {
  for (const Mask mask : masks) {
    const CompileResult result = compile_text(mask, {8});
    Session session = open(result), other = session.sibling();
    const Method &read = result.program->methods[0], &prompt = result.program->methods[2];
    EXPECT_EQ(prompt.outputs[0].type.shape, (Shape{1, 1, vocabulary}));
    ASSERT_EQ(prompt.inputs.size(), read.inputs.size() + 1);
    EXPECT_EQ(prompt.inputs.back().role, Role::last);
    for (size_t i = 1; i < read.outputs.size(); ++i) EXPECT_EQ(prompt.outputs[i].buffer, read.outputs[i].buffer);
    // 2 layers of 8 tokens: q, k, v and out of 8x8, scores and values of 8 keys; and 24 logits.
    const int64_t of_all = 4 * 64 + 2 * 8 * 8, keys = 2 * 64;
    EXPECT_EQ(method_work(*result.program, "read_8").flops, static_cast<uint64_t>(2 * 8 * (2 * of_all + 24 * 8)));
    EXPECT_EQ(method_work(*result.program, "prompt").flops,
              static_cast<uint64_t>(2 * (8 * of_all + 8 * keys + (of_all - keys) + 24 * 8)));
    const auto set = [&](Session& s, const std::string& method) {
      for (const TensorInfo& info : method_inputs(*result.program, method)) {
        const auto bytes = s.input(method, info.name);
        const int64_t row = info.type.shape.back();
        for (int64_t i = 0; i < element_count(info.type.shape); ++i) {
          const bool behind = i % row > i / row;
          if (info.name == "attention_mask")
            store_double(bytes.data(), info.type.dtype, i,
                         mask == Mask::added ? (behind ? -1e9 : 0) : mask == Mask::ones || !behind);
          else if (info.name != "last_token")
            store_int(bytes.data(), info.type.dtype, i, info.name == "input_ids" ? (i * 5 + 3) % vocabulary : i);
        }
      }
    };
    set(session, "read_8"), set(other, "prompt");
    session.run("read_8");
    const std::vector<float> all = floats(session.output("read_8", "logits"));
    for (int64_t last = 0; last < 8; ++last) {
      other.set_input("prompt", "last_token", std::as_bytes(std::span(&last, 1)));
      other.run("prompt");
      const std::vector<float> row = floats(other.output("prompt", "logits"));
      for (size_t i = 0; i < vocabulary; ++i)
        EXPECT_NEAR(row[i], all[static_cast<size_t>(last * vocabulary) + i], 1e-5) << static_cast<int>(mask);
      EXPECT_EQ(floats(other.output("prompt", "k_heads_1")), floats(session.output("read_8", "k_heads_1")));
    }
    const int64_t wrong = 8;
    other.set_input("prompt", "last_token", std::as_bytes(std::span(&wrong, 1)));
    EXPECT_THROW(other.run("prompt"), Error);
  }
}

// What mixes the tokens behind the last layer is computed of all; where that is the logits themselves there is no
// method more.
TEST(TextMethods, WhatMixesTokensIsComputedOfAll) {
  CompileOptions options;
  options.dtype = "float32";
  options.text = true;
  IrBuilder mixed = text_ir(Mask::none, 8);
  mixed.node("sums", "cumsum.default", {"logits"}, {1, 8, vocabulary}, {{"dim", 1}});
  nlohmann::json edited = nlohmann::json::parse(mixed.finish("read").json);
  edited["graph_outputs"][0] = {{"name", "sums"}, {"shape", {1, 8, vocabulary}}, {"dtype", "float32"}};
  const CompileResult result = compile({{"read", "read", edited.dump()}}, options);
  EXPECT_EQ(method_names(*result.program), std::vector<std::string>{"read"});
  EXPECT_EQ(result.notes,
            std::vector<std::string>{"read gets no method for prompts: sums cannot be computed of one token alone"});
}

}  // namespace
}  // namespace npusim
