// Methods as one launch of sizes that nobody chose: products, attention of queries that the method makes, products.
// Each is executed on the CPU and compared with the interpreter. NPUSIM_CUDA_CASES draws as many, NPUSIM_CUDA_SEED says
// from which seed on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/harness/draw.h"
#include "backends/cuda/stream_chain.h"
#include "kernel/contractions.h"

namespace npusim {
namespace {

void check_drawn(uint64_t seed) {
  Draw d(seed);
  AttentionCase c;
  c.type = d.coin() ? DType::f16 : DType::bf16, c.queries = d.of<int64_t>({1, 1, 1, 2, 4});
  c.kv_heads = d.of<int64_t>({1, 2, 8, 44, 66}), c.group = d.of<int64_t>({1, 1, 2, 5});
  c.keys = d.around(32, c.kv_heads > 8 ? 12 : 40);
  c.depth = 8 * d.between(1, 16), c.columns = d.coin() ? c.depth : 8 * d.between(1, 16);
  c.safe = d.coin();
  const int64_t heads = c.kv_heads * c.group, width = 64 * d.between(1, 4);
  SCOPED_TRACE(fmt::format("seed {}: {} x {} heads, {} queries of {} keys, {} and {}, width {}", seed, c.kv_heads,
                           c.group, c.queries, c.keys, c.depth, c.columns, width));
  const bool hides = d.coin();
  const auto score = [&](KernelBuilder&, Ex leaf, Ex mask) {
    return leaf * 0.3 + (hides ? select(mask > 0.5, mask, -std::numeric_limits<double>::infinity()) : mask);
  };
  Chain chain;
  chain.add(linear(c.queries, heads * c.depth, width, c.type, c.type, c.type, plain), {"x", "w1", "wb1", "x_r", "q"});
  chain.add(attention(c, DType::f32, score), {"q", "x_k", "x_v", "x_mask", "mixed"});
  chain.add(linear(c.queries, 8 * d.between(1, 9), heads * c.columns, c.type, c.type, c.type, plain),
            {"mixed", "w2", "wb2", "x_s", "y"});
  chain.check(0.01);
}

TEST(CudaStreamSearch, AttentionBetweenProducts) {
  for (int64_t n = 0; n < drawn_cases(1); ++n) check_drawn(first_seed() + static_cast<uint64_t>(n));
}

}  // namespace
}  // namespace npusim
