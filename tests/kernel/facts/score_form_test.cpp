// Forms of attention scores.
#include "kernel/facts/score_form.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernel/contractions.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename ScoreOf>
std::optional<ScoreForm> form_of(ScoreOf&& score, DType mask = DType::f32) {
  return score_form(attention({}, mask, score));
}

TEST(ScoreForm, ScaleAndMask) {
  using B = KernelBuilder;
  auto form = form_of([](B&, Ex x, Ex) { return x * 0.5 / 2.0; });
  ASSERT_TRUE(form);
  EXPECT_EQ(form->scale, 0.25f);
  EXPECT_EQ(form->mask, -1);
  EXPECT_FALSE(form->limited);
  form = form_of([](B&, Ex x, Ex mask) { return mask + x * 0.5; });
  ASSERT_TRUE(form);
  EXPECT_EQ(form->scale, 0.5f);
  EXPECT_EQ(form->mask, 0);
  EXPECT_FALSE(form_of([](B&, Ex x, Ex mask) { return (mask + x) * 0.5; }));  // scales the mask, too
}

// Space [batch, head, group, query, key]: key <= query + 3 means key < query + 4.
TEST(ScoreForm, KeysUpToALimit) {
  using B = KernelBuilder;
  const auto causal = [](B& b) { return b.index(4) <= b.index(3) + 3; };
  for (bool kept_first : {true, false}) {
    const auto form = form_of([&](B& b, Ex x, Ex) {
      return kept_first ? select(causal(b), x, -infinity) : select(!causal(b), -infinity, x);
    });
    ASSERT_TRUE(form) << kept_first;
    EXPECT_TRUE(form->limited);
    EXPECT_EQ(form->limit_offset, 4);
    EXPECT_EQ(form->limit_coeffs, (std::vector<int64_t>{0, 0, 0, 1}));
    EXPECT_EQ(form->masked, -infinity);
    EXPECT_FALSE(form->added);
  }
  const auto added = form_of([&](B& b, Ex x, Ex) { return x + select(causal(b), b.number(0), b.number(-1e9)); });
  ASSERT_TRUE(added);
  EXPECT_TRUE(added->limited && added->added);
  EXPECT_EQ(added->masked, -1e9f);
}

TEST(ScoreForm, KeysThatATensorKeeps) {
  using B = KernelBuilder;
  for (bool keeps : {true, false}) {
    const auto form = form_of(
        [&](B&, Ex x, Ex mask) { return keeps ? select(mask, x, -1e30) : select(mask, -1e30, x); }, DType::boolean);
    ASSERT_TRUE(form);
    EXPECT_EQ(form->kept, 0);
    EXPECT_EQ(form->keeps, keeps);
    EXPECT_EQ(form->masked, -1e30f);
  }
}

TEST(ScoreForm, OthersAreNone) {
  using B = KernelBuilder;
  EXPECT_FALSE(form_of([](B&, Ex x, Ex) { return tanh(x); }));
  EXPECT_FALSE(form_of([](B&, Ex x, Ex mask) { return x * mask; }));
  EXPECT_FALSE(form_of([](B& b, Ex x, Ex) { return select(b.index(4) < b.index(3) * b.index(2), x, -infinity); }));
  EXPECT_FALSE(form_of([](B& b, Ex x, Ex) { return select(b.index(3) <= b.index(4), x, -infinity); }));  // from, not to
}

}  // namespace
}  // namespace npusim
