// Attention steps against the scalar interpreter: heads, groups, masks, decode, odd sizes.
#include "backends/cpu/allocations.h"
#include "backends/cpu/product/check.h"
#include "base/threads.h"
#include "kernel/contractions.h"

namespace npusim::cpu::attention {
namespace {

using Case = AttentionCase;
using npusim::attention;  // the kernel, not this namespace

Ex scaled(KernelBuilder&, Ex leaf, Ex) { return leaf * 0.5; }
Ex masked(KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.5 + mask; }

TEST(ContractionAttention, Sizes) {
  for (int64_t queries : {1, 5, 9, 150})
    for (int64_t keys : {1, 31, 128, 129, 300})
      check_contraction(attention({.queries = queries, .keys = keys}, DType::f32, scaled));
  for (int64_t depth : {1, 17, 64, 130, 256})
    for (int64_t columns : {1, 33, 64})
      for (int64_t queries : {3, 20})
        check_contraction(attention({.queries = queries, .depth = depth, .columns = columns}, DType::f32, scaled), {},
                          {}, 1e-4);
}

// Keys and values where they lie: every number of rows, every remainder of a width.
TEST(ContractionAttention, FewRowsOfAnyWidth) {
  for (int64_t queries : {1, 2, 3, 4, 5, 6, 7, 8})
    for (int64_t width : {2, 3, 4, 7, 16, 24, 31, 33, 47, 63, 80, 129})
      for (int64_t keys : {5, 150}) {
        const Kernel kernel = attention(
            {.kv_heads = 1, .queries = queries, .keys = keys, .depth = width, .columns = width}, DType::f32, scaled);
        const std::string step = prepare(kernel, {}, make_context(1)).step->describe();
        EXPECT_NE(step.find("direct"), std::string::npos) << step;
        check_contraction(kernel);
        if (::testing::Test::HasFatalFailure()) return;
      }
}

// Long rows of keys: as exact as short ones, and the same bits for any number of threads.
TEST(ContractionAttention, ManyKeys) {
  for (int64_t queries : {1, 7, 12, 140})
    for (int64_t heads : {1, 3}) {
      const int64_t keys = queries < 100 ? 9000 : 1100;
      const Kernel kernel = attention({.kv_heads = heads, .queries = queries, .keys = keys}, DType::f32, scaled);
      const auto positive = [&](ContractionRun& run) {
        for (int64_t i = 0; i < kernel.args[2].elements; ++i) {
          const double v = load_double(run.memory[2].data(), DType::f32, i);
          store_double(run.memory[2].data(), DType::f32, i, std::fabs(v));
        }
      };
      std::vector<std::byte> first;
      for (int threads : {1, 2, 3, 5}) {
        ContractionRun run = prepare(kernel, {}, make_context(threads), positive);
        const ThreadCount limit(threads);
        run.step->run();
        if (first.empty()) {
          first = run.memory.back();
          std::vector<void*> pointers;
          for (auto& data : run.expected) pointers.push_back(data.data());
          evaluate(kernel, pointers, true);
          for (int64_t i = 0; i < kernel.args.back().elements; ++i) {
            const double want = load_double(run.expected.back().data(), DType::f32, i);
            ASSERT_NEAR(load_double(first.data(), DType::f32, i), want, 6e-7 * want) << queries << " rows, " << i;
          }
        }
        EXPECT_EQ(first, run.memory.back()) << threads << " threads, " << queries << " rows, " << heads << " heads";
      }
    }
}

// Parts of which all keys are hopeless count where a row has no others.
TEST(ContractionAttention, HopelessParts) {
  for (int64_t queries : {1, 12})
    for (double low : {-HUGE_VAL, -3e38}) {
      const Case c{.kv_heads = 1, .queries = queries, .keys = 2100};
      check_contraction(attention(c, DType::f32, masked), {}, [&](ContractionRun& run) {
        for (int64_t q = 0; q < queries; ++q)
          for (int64_t k = 0; k < c.keys; ++k)
            store_double(run.memory[3].data(), DType::f32, q * c.keys + k, q % 4 != 3 && k / 700 == 1 ? 0 : low);
      });
    }
}

TEST(ContractionAttention, RunAllocatesNothing) {
  for (int64_t queries : {3, 20}) {
    ContractionRun run =
        prepare(attention({.queries = queries, .keys = 3000}, DType::f32, scaled), {}, make_context(2));
    run.step->run();
    const int64_t before = allocations();
    run.step->run();
    EXPECT_EQ(allocations() - before, 0);
  }
}

TEST(ContractionAttention, GroupsAndTypes) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int64_t queries : {1, 2, 30})
      check_contraction(attention({.batch = 2,
                                   .kv_heads = 2,
                                   .group = 6,
                                   .queries = queries,
                                   .keys = 200,
                                   .depth = 32,
                                   .columns = 32,
                                   .type = type},
                                  DType::f32, scaled));
  // One head: the keys are split over the threads.
  check_contraction(attention(
      {.kv_heads = 1, .group = 3, .queries = 1, .keys = 1000, .depth = 64, .columns = 64, .type = DType::bf16},
      DType::f32, scaled));
  check_contraction(
      attention({.kv_heads = 3, .queries = 4, .keys = 1000, .depth = 64, .columns = 64}, DType::f32, scaled));
}

TEST(ContractionAttention, AdditiveMasks) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (DType mask_type : {DType::f32, DType::f16})
    for (float low : {-inf, -3e38f, -10000.0f})
      for (int64_t queries : {1, 12})
        for (bool safe : {false, true}) {
          const Case c{.queries = queries, .keys = 400, .safe = safe};
          check_contraction(attention(c, mask_type, masked), {}, [&](ContractionRun& run) {
            for (int64_t q = 0; q < queries; ++q)
              for (int64_t k = 0; k < c.keys; ++k) {
                const bool keep = k < 140 + q && q != 3;  // whole tiles, parts of tiles and one whole row are masked
                store_double(run.memory[3].data(), mask_type, q * c.keys + k, keep ? 0.125 * (k % 3) : low);
              }
          });
        }
}

// The log of each row's sum next to the values: rows of every kind, parts of the keys, rows without any score but −∞.
TEST(ContractionAttention, LogOfTheSum) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (int64_t queries : {1, 9, 150})
    for (int64_t keys : {0, 1, 31, 129, 1100})
      for (double low : {-inf, -3e38})
        for (bool safe : {false, true}) {
          if (queries == 150 && keys > 129 && safe) continue;
          const Case c{
              .kv_heads = 1, .group = 2, .queries = queries, .keys = keys, .columns = 24, .safe = safe, .logs = true};
          check_contraction(attention(c, DType::f32, masked), {}, [&](ContractionRun& run) {
            for (int64_t i = 0; i < queries * keys; ++i) {
              const int64_t query = i / keys % queries, key = i % keys;
              const bool hidden = query % 4 == 3 || key % 5 == 2 || key / 300 == 1;
              store_double(run.memory[3].data(), DType::f32, i, hidden ? low : 0.125 * static_cast<double>(key % 3));
            }
          });
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST(ContractionAttention, BooleanMasks) {
  for (double low : {-HUGE_VAL, -3e38, -1.0})
    for (int64_t queries : {1, 12})
      for (bool keeps : {true, false})
        for (bool safe : {false, true}) {
          const Case c{.queries = queries, .keys = 400, .safe = safe};
          const auto fill = [&](ContractionRun& run) {
            for (int64_t q = 0; q < queries; ++q)
              for (int64_t k = 0; k < c.keys; ++k) {
                const bool keep = k < 140 + q && k != 5 && q != 3;  // whole tiles, parts of tiles, one whole row go
                store_int(run.memory[3].data(), DType::boolean, q * c.keys + k, keep == keeps);
              }
          };
          const Kernel plain = attention(c, DType::boolean, [&](KernelBuilder&, Ex x, Ex mask) {
            return keeps ? select(mask, x * 0.5, low) : select(mask, low, x * 0.5);
          });
          check_contraction(plain, {}, fill);
          EXPECT_EQ(prepare(plain, {}, make_context(1)).step->describe().find("general"), std::string::npos);
          check_contraction(attention(c, DType::boolean,
                                      [&](KernelBuilder& b, Ex x, Ex mask) {
                                        const Ex causal = select(b.index(4) <= b.index(3) + 390, x * 0.5, low);
                                        return keeps ? select(mask, causal, low) : select(mask, low, causal);
                                      }),
                            {}, fill);
        }
}

TEST(ContractionAttention, Causal) {
  for (int64_t queries : {1, 40, 300})
    for (double low : {-HUGE_VAL, -3e38, -1.0}) {
      const int64_t keys = 320;
      const int64_t past = keys - queries;
      check_contraction(
          attention({.kv_heads = 1, .queries = queries, .keys = keys}, DType::f32,
                    [&](KernelBuilder& b, Ex x, Ex) { return select(b.index(4) <= b.index(3) + past, x * 0.5, low); }));
      check_contraction(attention({.kv_heads = 1, .queries = queries, .keys = keys}, DType::f32,
                                  [&](KernelBuilder& b, Ex x, Ex mask) {
                                    return select(b.index(4) > b.index(3) + past, low, x * 0.5 + mask);
                                  }));
    }
}

// Keys behind the number that is loaded, and their values, are not read.
TEST(ContractionAttention, CountedKeys) {
  struct Form {
    int64_t group, queries;
    bool varies;  // the number, with the query
  };
  for (const Form& form : {Form{1, 1, false}, {6, 1, false}, {1, 20, false}, {2, 3, true}})
    for (int64_t keys : {1, 128, 700})
      for (int64_t there : {-4, 0, 1, 127, 128, 129, 500, 700, 1000}) {
        const Case c{.group = form.group, .queries = form.queries, .keys = keys, .type = DType::bf16};
        Kernel kernel = attention(c, DType::i64, scaled);
        auto contraction = std::make_shared<Contraction>(*kernel.contraction);
        auto score = std::make_shared<Score>(*contraction->score);
        Expr load{.op = ExprOp::load, .type = Scalar::i64};
        load.integer = static_cast<int64_t>(score->accesses.size());
        score->accesses.push_back({3, 0, {0, 0, 0, form.varies ? keys : 0, 0}, {}, {}});
        score->keys = static_cast<int32_t>(score->exprs.size());
        score->exprs.push_back(load);
        contraction->score = score;
        kernel.contraction = contraction;
        ASSERT_EQ(check_kernel(kernel), std::vector<std::string>{});
        check_contraction(kernel, {}, [&](ContractionRun& run) {
          for (int64_t q = 0; q < form.queries; ++q) store_int(run.memory[3].data(), DType::i64, q * keys, there + q);
          if (form.varies) return;
          for (size_t argument : {1, 2})
            for (int64_t i = std::max<int64_t>(there, 0) * 32; i < keys * 32; ++i)
              store_double(run.memory[argument].data(), DType::bf16, i, std::nan(""));
        });
        EXPECT_EQ(prepare(kernel, {}, make_context(1)).step->describe().find("reference") != std::string::npos,
                  form.varies);
      }
}

TEST(ContractionAttention, GeneralScores) {
  for (int64_t queries : {1, 40})
    check_contraction(
        attention({.group = 2, .queries = queries, .keys = 150}, DType::boolean, [](KernelBuilder& b, Ex x, Ex mask) {
          return select(mask, tanh(x) * 3.0 + b.cast(b.index(3) - b.index(4), Scalar::f32) * 0.01, -HUGE_VAL);
        }));
}

// In queries, keys and values that count.
TEST(ContractionAttention, KeepsSpecialValues) {
  for (double special : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    for (int argument : {0, 1, 2})
      for (int64_t queries : {1, 40}) {
        const Case c{.queries = queries, .keys = 150, .logs = true};
        check_contraction(attention(c, DType::f32, scaled), {}, [&](ContractionRun& run) {
          store_double(run.memory[static_cast<size_t>(argument)].data(), DType::f32, 5, special);
        });
      }
}

TEST(ContractionAttention, EmptyExtents) {
  check_contraction(attention({.keys = 0}, DType::f32, scaled));
  check_contraction(attention({.queries = 0}, DType::f32, scaled));
}

}  // namespace
}  // namespace npusim::cpu::attention
