// Which scores are taken apart from their masks, and for which products what is hidden stays hidden.
#include "kernel/facts/masked_score.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernel/contractions.h"

namespace npusim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename ScoreOf>
std::optional<MaskedScore> masked(ScoreOf&& score_of) {
  const Kernel kernel = attention({}, DType::f32, score_of);
  std::optional<MaskedScore> found = masked_score(kernel);
  if (found) {
    const Shape& space = found->kernel.space;
    found->kernel.args.push_back({DType::f32, element_count(space), true, -1});
    const Access there{static_cast<int>(found->kernel.args.size()) - 1, 0, row_major_strides(space), {}, {}};
    found->kernel.stores = {{there, found->plain, false}, {there, found->lowest, false}};
    EXPECT_EQ(check_kernel(found->kernel), std::vector<std::string>{});
  }
  return found;
}

TEST(MaskedScore, WithoutAMaskThereIsNone) {
  EXPECT_FALSE(masked([](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.5; }));
  EXPECT_FALSE(masked([](KernelBuilder&, Ex leaf, Ex) { return leaf + 0.5; }));
  EXPECT_FALSE(masked([](KernelBuilder&, Ex leaf, Ex mask) { return leaf * mask; }));
  EXPECT_FALSE(masked([](KernelBuilder&, Ex leaf, Ex mask) { return tanh(leaf + mask); }));
}

TEST(MaskedScore, ProductsForWhichWhatIsHiddenIsMinusInfinity) {
  const auto added = masked([](KernelBuilder&, Ex leaf, Ex mask) { return leaf * 8.0 + mask; });
  ASSERT_TRUE(added);
  EXPECT_NEAR(added->most, 1e38 / 8, 1e36);
  EXPECT_EQ(added->dims, dim_bit(0) | dim_bit(3) | dim_bit(4));  // batch, query, key
  const auto rounded =
      masked([](KernelBuilder& b, Ex leaf, Ex mask) { return b.round_to(leaf * 8.0, DType::f16) + mask; });
  ASSERT_TRUE(rounded);
  EXPECT_LT(rounded->most, 65504.0 / 8);
  EXPECT_GT(rounded->most, 65000.0 / 8 * 0.97);
  const auto capped = masked([](KernelBuilder&, Ex leaf, Ex mask) { return tanh(leaf * 0.02) * 50.0 + mask; });
  ASSERT_TRUE(capped);
  EXPECT_GT(capped->most, 1e37);
  const auto unknown = masked([](KernelBuilder&, Ex leaf, Ex mask) { return exp(leaf) + mask; });
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->most, 0);
  const auto selected = masked(
      [](KernelBuilder& b, Ex leaf, Ex mask) { return select(b.index(4) <= b.index(3), exp(leaf), -infinity) + mask; });
  ASSERT_TRUE(selected);
  EXPECT_EQ(selected->most, infinity);
}

}  // namespace
}  // namespace npusim
