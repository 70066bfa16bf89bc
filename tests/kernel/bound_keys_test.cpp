// Masks behind a position become a number of keys where they are shown to be masks, and nowhere else.
#include "kernel/fuse/bound_keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernel/contractions.h"
#include "kernel/evaluate.h"

namespace npusim {
namespace {

using Score = std::function<Ex(KernelBuilder&, Ex x, Ex key, Ex position)>;
constexpr double none = -HUGE_VAL;

// One head, one query, six keys; the position is the first element of argument 3.
Kernel with_score(const Score& score) {
  return attention({.kv_heads = 1, .queries = 1, .keys = 6, .depth = 2, .columns = 2}, DType::i64,
                   [&](KernelBuilder& b, Ex x, Ex) {
                     const Coords first{Coord(int64_t{0}), Coord(int64_t{0}), Coord(int64_t{0})};
                     return score(b, x * 0.5, b.index(4), b.load(3, first));
                   });
}

std::string score_text(const Kernel& kernel) {
  const std::string text = to_text(kernel);
  const size_t begin = text.find("    e0 =");
  return text.substr(begin, text.find("\ne0 =") + 1 - begin);
}

TEST(BoundKeys, AMaskBecomesANumberOfKeys) {
  const Kernel kernel = with_score([](KernelBuilder& b, Ex x, Ex key, Ex position) {
    return x + select(key <= position, b.number(0), b.number(none));
  });
  const auto bounded = bound_keys(kernel, 3);
  ASSERT_NE(bounded, nullptr);
  EXPECT_EQ(check_kernel(*bounded), std::vector<std::string>{});
  EXPECT_EQ(score_text(*bounded),
            "    e0 = contraction : f32\n    e1 = constant 0.5 : f32\n    e2 = mul e0 e1 : f32\n"
            "    e3 = load %3[0 + [0, 0, 0, 0, 0]] : i64\n    e4 = constant 1 : i64\n    e5 = add e3 e4 : i64\n"
            "    score = e2\n    keys = e5\n");
  EXPECT_EQ(bound_keys(*bounded, 3), nullptr);  // it is done
}

TEST(BoundKeys, MasksAreKnownByWhatTheyAre) {
  const std::pair<bool, Score> cases[] = {
      {true, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k <= p, x, none); }},
      {true, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k > p, none, x); }},
      {true, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(!(k <= p), none, x); }},
      {true, [](KernelBuilder& b, Ex x, Ex k, Ex p) { return select(k <= p && b.index(3) < 7, x, none); }},
      {true,
       [](KernelBuilder& b, Ex x, Ex k, Ex p) {  // ones
         return select(select(k <= p, b.integer(1), b.integer(0)) == 0, none, x);
       }},
      {true, [](KernelBuilder& b, Ex x, Ex k,
                Ex p) { return b.round_to(x + select(k <= p, b.number(0), b.number(none)), DType::bf16); }},
      // A finite number is not −inf; another place is not the position; what is masked before it is not behind.
      {false, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k <= p, x, -3e38); }},
      {false, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k < p, x, none); }},
      {false, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k <= p + 1, x, none); }},
      {false, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k <= p, none, x); }},
      {false, [](KernelBuilder& b, Ex x, Ex, Ex p) { return select(b.index(3) <= p, x, none); }},
      {false, [](KernelBuilder& b, Ex x, Ex k, Ex p) { return select(k <= p || b.index(3) < 7, x, none); }},
      {false, [](KernelBuilder&, Ex x, Ex k, Ex p) { return max(select(k <= p, x, none), -5.0); }},
      {false, [](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k <= p, x, none) * -1.0; }},
      {false, [](KernelBuilder&, Ex x, Ex, Ex) { return x; }},
  };
  for (const auto& [bounds, score] : cases) {
    const Kernel kernel = with_score(score);
    EXPECT_EQ(bound_keys(kernel, 3) != nullptr, bounds) << to_text(kernel);
    EXPECT_EQ(bound_keys(kernel, 0), nullptr);  // not this argument
  }
}

// The same result, and the same when nothing behind the position is a number.
TEST(BoundKeys, WhatIsBehindIsNotRead) {
  const Kernel kernel = with_score([](KernelBuilder&, Ex x, Ex k, Ex p) { return select(k <= p, x, none); });
  const auto bounded = bound_keys(kernel, 3);
  ASSERT_NE(bounded, nullptr);
  for (int64_t position : {-3, -1, 0, 2, 5, 6, 100}) {
    std::vector<std::vector<double>> results;
    for (const Kernel* k : {&kernel, bounded.get()}) {
      std::vector<HostTensor> memory;
      std::vector<void*> args;
      for (const KernelArg& arg : kernel.args) memory.push_back(make_tensor({arg.dtype, {arg.elements}}));
      for (int64_t i = 0; i < 12; ++i)
        for (size_t n = 0; n < 3; ++n)
          if (i < kernel.args[n].elements) {
            const bool behind = n > 0 && i / 2 > position && k == bounded.get();
            store_double(memory[n].data.data(), DType::f32, i, behind ? NAN : std::sin(i * 3.0 + n));
          }
      store_int(memory[3].data.data(), DType::i64, 0, position);
      for (HostTensor& tensor : memory) args.push_back(tensor.data.data());
      evaluate(*k, args);
      results.push_back(
          {load_double(memory[4].data.data(), DType::f32, 0), load_double(memory[4].data.data(), DType::f32, 1)});
    }
    if (position >= 0)
      EXPECT_EQ(results[0], results[1]) << position;
    else
      EXPECT_EQ(results[1], std::vector<double>(2)) << position;  // no keys
  }
}

}  // namespace
}  // namespace npusim
