// What is found about contractions: the axes walk every element that the kernel does, and words are where memory is.
#include "plan/contracted.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kernel/contractions.h"

namespace npusim {
namespace {

using plan::Operand;
using plan::Product;

Ex masked(KernelBuilder&, Ex leaf, Ex mask) { return leaf + mask; }

// The element of the operand at a point of space ++ reduce, as the kernel's access says; -1: a guard does not hold.
int64_t element(const Access& access, const std::vector<int64_t>& at) {
  int64_t offset = access.offset;
  for (size_t d = 0; d < at.size(); ++d) offset += access.strides[d] * at[d];
  for (const Guard& g : access.guards) {
    int64_t value = g.offset;
    for (size_t d = 0; d < at.size(); ++d) value += g.coeffs[d] * at[d];
    if (value < 0 || value >= g.limit) return -1;
    offset += g.stride * value;
  }
  return offset;
}

int64_t element(const Operand& operand, const std::vector<int64_t>& at) {
  int64_t offset = operand.offset;
  for (size_t d = 0; d < at.size(); ++d) offset += operand.strides[d] * at[d];
  for (const plan::Bound& b : operand.bounds) {
    int64_t value = b.offset;
    for (size_t d = 0; d < at.size(); ++d) value += b.coeffs[d] * at[d];
    if (value < 0 || value >= b.limit) return -1;
  }
  return offset;
}

// Sets the indices along the axis from a flat position.
void stand(const Axis& axis, int64_t flat, std::vector<int64_t>& at) {
  for (size_t n = axis.dims.size(); n-- > 0; flat /= axis.extents[n])
    at[static_cast<size_t>(axis.dims[n])] = flat % axis.extents[n];
}

// Every point of space ++ reduce once, by flat positions of the four axes; elements as the kernel has them; and where
// an operand is said to have words along an axis, its last dimension's neighbours are neighbours that begin at words.
void check_product(const Kernel& kernel, const Product& p) {
  std::set<std::vector<int64_t>> seen;
  int64_t points = 1;
  for (const int64_t extent : p.extents) points *= extent;
  const int64_t depth = p.filled == word_of(p) ? p.depth.size() : p.depth.size() / word_of(p) * p.filled;
  Axis real = p.depth;
  if (p.filled != word_of(p)) real.extents.back() = p.filled;
  std::vector<int64_t> at(p.extents.size(), 0);
  for (int64_t b = 0; b < p.batch.size(); ++b)
    for (int64_t r = 0; r < p.rows.size(); ++r)
      for (int64_t c = 0; c < p.columns.size(); ++c)
        for (int64_t d = 0; d < depth; ++d) {
          stand(p.batch, b, at), stand(p.rows, r, at), stand(p.columns, c, at), stand(real, d, at);
          seen.insert(at);
          ASSERT_EQ(element(p.a, at), element(kernel.contraction->a, at));
          ASSERT_EQ(element(p.b, at), element(kernel.contraction->b, at));
        }
  ASSERT_EQ(static_cast<int64_t>(seen.size()), points);
  const auto check_words = [&](const Operand& o, const Axis& across) {
    if (o.words == Operand::Words::none) return;
    const Axis& axis = o.words == Operand::Words::along_depth ? p.depth : across;
    EXPECT_EQ(o.strides[static_cast<size_t>(axis.dims.back())], 1);
    EXPECT_EQ(axis.extents.back() % o.word, 0);
    EXPECT_EQ(o.offset % o.word, 0);
  };
  check_words(p.a, p.rows), check_words(p.b, p.columns);
}

TEST(Contracted, ProductsOfRandomConvolutions) {
  std::mt19937 random(5);
  const auto of = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  int words = 0, parts = 0;
  for (int n = 0; n < 300; ++n) {
    ConvCase c;
    c.batch = of({1, 2}), c.groups = of({1, 1, 2, 8}), c.in_channels = of({1, 3, 4, 8}), c.out_channels = of({1, 5, 8});
    const size_t rank = 1 + random() % 2;
    c.input.assign(rank, 0), c.kernel.assign(rank, 0), c.stride.assign(rank, 1), c.pad.assign(rank, 0);
    c.dilation.assign(rank, 1);
    for (size_t d = 0; d < rank; ++d) {
      c.kernel[d] = of({1, 2, 3}), c.stride[d] = of({1, 2}), c.dilation[d] = of({1, 2}), c.pad[d] = of({0, 1, 2});
      c.input[d] = of({5, 7, 8});
    }
    c.channels_last = random() % 2, c.result_turned = random() % 2, c.taps_backwards = random() % 2;
    c.type = c.weight_type = random() % 2 ? DType::f16 : DType::f32;
    Kernel kernel = conv(c, plain);
    if (c.in_channels == 8 && random() % 2) {  // of channels that memory has, some are of the image
      auto fewer = std::make_shared<Contraction>(*kernel.contraction);
      fewer->reduce[0] = 3;
      kernel.contraction = std::move(fewer);
    }
    const plan::Contracted known = plan::contracted(kernel);
    ASSERT_TRUE(known.product) << known.no_product;
    ASSERT_NO_FATAL_FAILURE(check_product(kernel, *known.product)) << n;
    EXPECT_FALSE(known.axes || known.attention);
    if (known.windows) {
      EXPECT_EQ(known.windows->groups * known.windows->out_channels, c.groups * c.out_channels);
      EXPECT_EQ(known.whole_image, is_whole(kernel, *known.windows));
    }
    words += known.product->a.words != Operand::Words::none;
    parts += known.product->filled != word_of(*known.product);
  }
  EXPECT_GT(words, 30);  // each kind was met
  EXPECT_GT(parts, 5);
}

TEST(Contracted, ProductsOfMatrices) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    for (const int64_t m : {1, 3, 16})
      for (const int64_t k : {1, 5, 8, 24}) {
        const Kernel kernel = linear(m, 24, k, type, type, type, plain);
        const plan::Contracted known = plan::contracted(kernel);
        ASSERT_TRUE(known.product) << known.no_product;
        ASSERT_NO_FATAL_FAILURE(check_product(kernel, *known.product));
        EXPECT_EQ(known.product->dtype, type);
        EXPECT_FALSE(known.windows);
      }
  EXPECT_EQ(plan::contracted(linear(2, 2, 2, DType::f16, DType::f32, DType::f16, plain)).no_product,
            "operands of float16 and float32, not of one 16-bit type or float32");
  EXPECT_EQ(plan::contracted(linear(2, 0, 2, DType::f32, DType::f32, DType::f32, plain)).no_product,
            "a dimension is empty");
}

TEST(Contracted, Attentions) {
  AttentionCase c;
  c.type = DType::f16, c.depth = c.columns = 16;
  const plan::Contracted known = plan::contracted(attention(c, DType::f32, masked));
  ASSERT_TRUE(known.axes && known.attention) << known.no_attention;
  EXPECT_FALSE(known.product || known.windows);
  EXPECT_EQ(known.no_product, "it is an attention");
  EXPECT_EQ(known.attention->keys, c.keys);
  EXPECT_EQ(known.attention->columns, c.columns);
  EXPECT_EQ(known.axes->rows.size(), c.queries * c.group);
  const auto why = [](AttentionCase of) { return plan::contracted(attention(of, DType::f32, masked)).no_attention; };
  c.depth = 12;
  EXPECT_EQ(why(c), "queries and keys that do not lie in words along the depth");
  c.depth = 16, c.columns = 12;
  EXPECT_EQ(why(c), "values that do not lie in words along a row");
  c.columns = 16, c.type = DType::f32;
  EXPECT_EQ(why(c), "queries of float32, not of a 16-bit type");
}

TEST(Contracted, NothingOfAKernelWithoutOne) {
  KernelBuilder b({4});
  const int x = b.input({DType::f32, {4}}), y = b.output({DType::f32, {4}});
  b.store(y, b.load(x, Coords{b.dim(0)}));
  const plan::Contracted known = plan::contracted(b.finish("copy"));
  EXPECT_FALSE(known.product || known.windows || known.axes || known.attention);
  EXPECT_EQ(known.no_product + known.no_attention, "");
}

}  // namespace
}  // namespace npusim
