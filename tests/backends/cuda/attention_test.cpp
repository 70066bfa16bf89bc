// Attention in one kernel, executed (on the CPU where there is no GPU) and compared with the reference: every shape of
// block, heads and keys of every size, scores that are no numbers, keys that do not exist.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/codegen/attention/summary.h"
#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/harness/attended.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "print/print.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string declined(const Kernel& kernel) {
  std::string why;
  return attention_of(kernel, why) ? "" : why;
}

Ex causal(KernelBuilder& b, Ex leaf, Ex mask) {
  return select(b.binary(ExprOp::le, b.index(4), b.index(3)), leaf * 0.125, -infinity) + mask;
}
Ex some_hidden(KernelBuilder& b, Ex leaf, Ex mask) {
  return select(mask < 2 && b.index(4) < b.integer(700), leaf * 0.25, -infinity);
}
// What is seen begins and ends within pieces, and others see nothing.
Ex window(KernelBuilder& b, Ex leaf, Ex mask) {
  return select(b.integer(90) < b.index(4) && b.index(4) < b.integer(600), leaf * 0.25, -infinity) + mask;
}
Ex rounded(KernelBuilder& b, Ex leaf, Ex mask) { return b.round_to(leaf * 1.0, DType::f16) + mask; }
Ex none_left(KernelBuilder&, Ex leaf, Ex mask) { return select(mask < 9, -infinity, leaf); }
Ex capped(KernelBuilder&, Ex leaf, Ex mask) { return tanh(leaf * 0.02) * 50.0 + mask; }

AttentionCase heads(int64_t size, DType type = DType::f16) {
  AttentionCase c;
  c.type = type, c.group = 2, c.queries = 13, c.keys = 37, c.depth = c.columns = size;
  return c;
}

TEST(CudaAttention, EveryShapeOfABlock) {
  std::vector<Case> cases;
  for (const cuda::codegen::attention::AttentionShape& s :
       {cuda::codegen::attention::AttentionShape{8, 1, 16}, {4, 1, 64}, {4, 1, 48}, {2, 2, 32}, {1, 4, 16}})
    for (const int64_t keys : {1, 37, 130}) {
      AttentionCase c = heads(64, keys == 37 ? DType::bf16 : DType::f16);
      c.keys = keys, c.queries = keys == 130 ? 20 : 13, c.logs = keys != 37;
      cases.push_back(
          shaped(fmt::format("block{}x{}x{}_{}", s.warps_along_rows, s.warps_along_keys, s.keys_of_warp, keys),
                 attention(c, DType::f32, masked), s));
    }
  check(cases);
}

TEST(CudaAttention, HeadsOfEverySize) {
  std::vector<Case> cases;
  for (const int64_t size : {8, 24, 80, 96, 128, 256})
    cases.push_back(chosen(fmt::format("heads{}", size), attention(heads(size), DType::f16, masked), "attention"));
  AttentionCase uneven = heads(40);
  uneven.columns = 72, uneven.batch = 2;
  cases.push_back(chosen("uneven", attention(uneven, DType::f32, capped), "attention"));
  AttentionCase image = heads(64);
  image.group = 1, image.kv_heads = 12, image.queries = image.keys = 197;
  cases.push_back(chosen("image", attention(image, DType::f32, masked), "attention"));
  cases.push_back(chosen("causal", attention(heads(64, DType::bf16), DType::f32, causal), "attention"));
  check(cases);
}

// The mask's rows are −∞ but for some keys; one has an infinite score, one a NaN, one nothing but −∞.
TEST(CudaAttention, ScoresThatAreNoNumbers) {
  std::vector<Case> cases;
  for (const bool safe : {false, true})
    for (const cuda::codegen::attention::AttentionShape& s :
         {cuda::codegen::attention::AttentionShape{4, 1, 16}, {1, 4, 16}}) {
      AttentionCase c = heads(16);
      c.keys = 70, c.safe = safe, c.logs = true;
      Case one = shaped(fmt::format("numbers{}_{}", safe, s.warps_along_keys), attention(c, DType::f32, masked), s);
      one.given = [](std::vector<HostTensor>& memory) {
        HostTensor& mask = memory[3];
        for (int64_t i = 0; i < 13 * 70; ++i) {
          const int64_t row = i / 70, key = i % 70;
          const bool there = row == 1 ? key > 65 : row == 2 ? key < 3 : row == 4 ? false : key % 3 == 0;
          store_double(mask.data.data(), DType::f32, i, there ? 0.5 : -infinity);
        }
        store_double(mask.data.data(), DType::f32, 5 * 70 + 9, infinity);
        store_double(mask.data.data(), DType::f32, 6 * 70 + 66, std::numeric_limits<double>::quiet_NaN());
      };
      cases.push_back(std::move(one));
    }
  check(cases);
}

// Heads of every width, one warpgroup and two, masks that leave stages as they are.
TEST(CudaAttention, Warpgroups) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const AttentionCase& c, auto score, int groups, int keys) {
    cases.push_back(shaped(name, attention(c, DType::f32, score), {4 * groups, 1, keys, groups}));
  };
  AttentionCase c = heads(64);
  add("groups_small", c, masked, 1, 64);
  c.type = DType::bf16, c.group = 6, c.queries = 50, c.keys = 197, c.logs = true;
  add("groups_causal", c, causal, 2, 64);
  c.depth = c.columns = 128;
  add("groups_128", c, capped, 2, 128);
  c.type = DType::f16, c.depth = 96, c.columns = 80, c.group = 1, c.queries = 300, c.keys = 264, c.batch = 2;
  add("groups_uneven", c, masked, 1, 128);
  c.depth = c.columns = 256, c.batch = 1, c.queries = 70;
  add("groups_256", c, causal, 1, 64);
  c = heads(64);
  c.keys = 300;
  for (const int64_t keys : {0, 1, 200}) {
    cases.push_back(
        shaped(fmt::format("groups_of{}", keys), with_keys(attention(c, DType::i64, some_hidden)), {4, 1, 64, 1}));
    cases.back().given = [keys](std::vector<HostTensor>& memory) {
      store_int(memory[3].data.data(), DType::i64, 0, keys);
    };
  }
  check(cases);
}

// Stages that a mask hides from a block's rows, and what is in them all the same: seen by the block or before it.
TEST(CudaAttention, HiddenStages) {
  std::vector<Case> cases;
  enum Hidden { finite, numbers, product };
  const auto add = [&](Hidden hidden, bool safe, bool before, int64_t keys, int64_t batch) {
    AttentionCase c = heads(64, safe ? DType::f16 : DType::bf16);
    c.group = 7, c.queries = 40, c.keys = keys, c.safe = safe, c.batch = batch;
    const std::string name = fmt::format("groups_hidden{}{}{}", hidden, safe, before ? "_before" : "");
    const Kernel kernel = attention(c, DType::f32, rounded);
    Case one = before ? summarized(name, kernel, {4, 1, 64, 1}) : shaped(name, kernel, {4, 1, 64, 1});
    const auto find_out = one.given;
    one.given = [=](std::vector<HostTensor>& memory) {
      HostTensor& mask = memory[3];
      for (int64_t i = 0; i < batch * 40 * keys; ++i) {
        const int64_t row = i / keys % 40, key = i % keys;
        const bool there = row == 30 || row > 36 ? false : row < 10 ? key < 70 : key >= 128 && key <= row * 9;
        store_double(mask.data.data(), DType::f32, i, there ? 0 : -infinity);
      }
      store_double(mask.data.data(), DType::f32, 31 * keys + 140, 0.75);
      store_double(mask.data.data(), DType::f32, 32 * keys + 9, infinity);
      store_double(mask.data.data(), DType::f32, 33 * keys + 300, std::numeric_limits<double>::quiet_NaN());
      const int64_t last = (batch * keys - 1) * 2 * 64;
      if (hidden == numbers) {  // of one head a key, of the other one a value
        store_double(memory[1].data.data(), c.type, last + 5, infinity);
        store_double(memory[2].data.data(), c.type, last + 64 + 5, infinity);
      } else if (hidden == product) {  // more than float16 has
        store_double(memory[0].data.data(), c.type, 3 * 14 * 64 + 5, 300);
        store_double(memory[1].data.data(), c.type, last + 5, 300);
      }
      if (find_out) find_out(memory);
    };
    cases.push_back(std::move(one));
  };
  for (const Hidden hidden : {finite, numbers, product})
    for (const bool safe : {false, true}) {
      add(hidden, safe, false, 400, 1);
      add(hidden, safe, true, 448, 2);
    }
  AttentionCase c = heads(64);
  c.group = 7, c.queries = 40, c.keys = 400, c.logs = true;
  cases.push_back(shaped("groups_none", attention(c, DType::i64, none_left), {4, 1, 64, 1}));
  c.keys = 384;
  cases.push_back(summarized("groups_none_before", attention(c, DType::i64, none_left), {4, 1, 64, 1}));
  cases.push_back(summarized("groups_causal_before", attention(c, DType::f32, causal), {8, 1, 128, 2}));
  check(cases);
}

// What keys have no whole stages for, or what depends on more than masks and numbers, is not found out before.
TEST(CudaAttention, WhatBlocksLookAtThemselves) {
  const auto parts = [](const Kernel& kernel) {
    std::string why;
    return cuda::codegen::attention::summarize_attention(kernel, *attention_of(kernel, why), {4, 1, 64, 1})
        .steps.size();
  };
  AttentionCase c = heads(64);
  c.keys = 320;
  EXPECT_EQ(parts(attention(c, DType::f32, masked)), 3U);
  EXPECT_EQ(parts(with_keys(attention(c, DType::i64, some_hidden))), 0U);
  EXPECT_EQ(parts(attention(c, DType::f32, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.5; })), 0U);
  c.columns = 72;
  EXPECT_EQ(parts(attention(c, DType::f32, masked)), 0U);
  c.columns = 64, c.keys = 300;
  EXPECT_EQ(parts(attention(c, DType::f32, masked)), 0U);
  c.group = 6, c.queries = 1024;
  for (const int64_t keys : {512, 1024})
    for (const bool groups : {false, true}) {
      c.keys = keys;
      EXPECT_EQ(cuda::codegen::choose::find_parts(attention(c, DType::f32, masked), groups ? hopper : any).steps.size(),
                groups && keys == 1024 ? 3U : 0U);
    }
}

// As many keys as there are said to be; what lies behind them is NaN.
TEST(CudaAttention, KeysThatDoNotExist) {
  std::vector<Case> cases;
  for (const int64_t keys : {-1, 0, 1, 17, 40, 1000}) {
    AttentionCase c = heads(32);
    c.keys = 40;
    const Kernel kernel = with_keys(attention(c, DType::i64, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.5; }));
    Case one = chosen(fmt::format("keys{}", keys + 1), kernel, "attention");
    one.given = [keys](std::vector<HostTensor>& memory) {
      store_int(memory[3].data.data(), DType::i64, 0, keys);
      for (const size_t n : {1, 2})
        for (int64_t i = std::max<int64_t>(keys, 0) * 2 * 32; i < 40 * 2 * 32; ++i)
          store_double(memory[n].data.data(), DType::f16, i, std::numeric_limits<double>::quiet_NaN());
    };
    cases.push_back(std::move(one));
  }
  check(cases);
}

TEST(CudaAttention, WhatIsMadeOfProducts) {
  EXPECT_EQ(declined(attention(heads(20), DType::f32, masked)),
            "queries and keys that do not lie in words along the depth");
  EXPECT_EQ(declined(attention(heads(264), DType::f32, masked)), "heads of 264 and 264, more than 256");
  EXPECT_EQ(declined(attention(heads(64, DType::f32), DType::f32, masked)), "queries of float32, not of a 16-bit type");
}

// Few rows and many keys: pieces of the keys, and their sum.
TEST(CudaAttention, Pieces) {
  std::vector<Steps> all;
  const auto add = [&](const std::string& name, Kernel kernel) {
    kernel.name = name;
    all.push_back({name, std::move(kernel), 2, {"attention", "rows"}});
  };
  AttentionCase c = heads(64, DType::bf16);
  c.queries = 1, c.group = 6, c.keys = 1024;
  add("pieces", attention(c, DType::f32, masked));
  add("pieces_hidden", attention(c, DType::i64, some_hidden));
  add("pieces_window", attention(c, DType::f32, window));
  add("pieces_none", attention(c, DType::i64, none_left));
  c.safe = true, c.type = DType::f16, c.depth = c.columns = 96, c.group = 7, c.queries = 2;
  add("pieces_safe", attention(c, DType::i64, none_left));
  add("pieces_causal", attention(c, DType::f32, causal));
  c.safe = false, c.batch = 3;
  add("pieces_of_some", with_keys(attention(c, DType::i64, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.5; })));
  check_steps(all);
  AttentionCase odd = heads(64);
  odd.queries = 1, odd.keys = 521;
  std::string why;
  EXPECT_EQ(cuda::codegen::attention::pieces_of(*attention_of(attention(odd, DType::f32, masked), why), any), 0);
}

}  // namespace
}  // namespace npusim
