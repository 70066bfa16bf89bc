// Kernels of sizes that nobody chose: each family of printed texts with more stages, splits and blocks than its tests
// have, heads, rows and depths around the sizes of everything, executed (on the CPU where there is no GPU) and compared
// with the interpreter. NPUSIM_CUDA_CASES draws as many of each family, NPUSIM_CUDA_SEED says from which seed on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <tuple>

#include "backends/cuda/codegen/attention/groups.h"
#include "backends/cuda/codegen/attention/summary.h"
#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/products/depthwise.h"
#include "backends/cuda/codegen/products/dot.h"
#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/codegen/text.h"
#include "backends/cuda/device.h"
#include "backends/cuda/harness/attended.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/draw.h"
#include "backends/cuda/harness/tiled.h"
#include "kernel/builder.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "print/print.h"

namespace npusim {
namespace {

using Score = std::function<Ex(KernelBuilder&, Ex, Ex)>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t most_shared_bytes = 220 << 10;

DType half(Draw& d) { return d.coin() ? DType::f16 : DType::bf16; }

struct Scored {
  std::string name;
  DType mask = DType::f32;
  Score score;
  bool counted = false;  // the mask's first element is the number of keys
};

// What there is between a product and a weight.
Scored draw_score(Draw& d, int64_t keys) {
  const int64_t first = d.between(-1, keys - 1), last = d.between(first + 1, keys);
  const Scored all[] = {
      {"plain", DType::f32, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.25; }},
      {"masked", DType::f32, masked},
      {"causal", DType::f32,
       [](KernelBuilder& b, Ex leaf, Ex) {
         return select(b.binary(ExprOp::le, b.index(4), b.index(3)), leaf * 0.25, -infinity);
       }},
      {"causal_masked", DType::f32,
       [](KernelBuilder& b, Ex leaf, Ex mask) {
         return select(b.binary(ExprOp::le, b.index(4), b.index(3)), leaf * 0.25, -infinity) + mask;
       }},
      {"window", DType::f32,
       [=](KernelBuilder& b, Ex leaf, Ex mask) {
         return select(b.integer(first) < b.index(4) && b.index(4) < b.integer(last + 1), leaf * 0.25, -infinity) +
                mask;
       }},
      {"selected", DType::i64,
       [](KernelBuilder&, Ex leaf, Ex mask) { return select(mask < 3, leaf * 0.25, -infinity); }},
      {"capped", DType::f32, [](KernelBuilder&, Ex leaf, Ex mask) { return tanh(leaf * 0.02) * 50.0 + mask; }},
      {"counted", DType::i64, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.25; }, true},
  };
  return all[d.between(0, static_cast<int64_t>(std::size(all)) - 1)];
}

// Work that the interpreter does in a moment.
constexpr int64_t most_work = 4'000'000;

AttentionCase draw_attention(Draw& d, int64_t stage) {
  AttentionCase c;
  do {
    c.batch = d.of<int64_t>({1, 1, 2, 3}), c.kv_heads = d.of<int64_t>({1, 1, 2, 3});
    c.group = d.of<int64_t>({1, 1, 2, 5}), c.queries = d.between(1, 130), c.keys = d.around(stage, 5);
    c.depth = d.coin() ? 64 : 8 * d.between(1, 32);
    c.columns = d.between(0, 3) > 0 ? c.depth : 8 * d.between(1, 32);
  } while (c.batch * c.kv_heads * c.group * c.queries * c.keys * (c.depth + c.columns) > most_work);
  c.type = half(d), c.safe = d.coin();
  return c;
}

Case attended(Draw& d, const std::string& name, const AttentionCase& c,
              const cuda::codegen::attention::AttentionShape& shape) {
  const Scored scored = draw_score(d, c.keys);
  const Kernel kernel = attention(c, scored.mask, scored.score);
  const std::string full = fmt::format("{}_{}_{}x{}x{}x{}_of_{}_by_{}and{}{}", name, scored.name, c.batch, c.kv_heads,
                                       c.group, c.queries, c.keys, c.depth, c.columns, c.safe ? "_safe" : "");
  if (!scored.counted) {
    std::string why;
    const bool told =
        shape.groups > 0 &&
        cuda::codegen::attention::summarize_attention(kernel, *attention_of(kernel, why), shape).steps.size() == 3;
    return told && d.coin() ? summarized(full, kernel, shape) : shaped(full, kernel, shape);
  }
  Case one = shaped(full, with_keys(kernel), shape);
  const int64_t keys = d.between(0, c.keys);
  one.given = [keys](std::vector<HostTensor>& memory) { store_int(memory[3].data.data(), DType::i64, 0, keys); };
  return one;
}

Case attention_of_warps(Draw& d, const std::string& name) {
  const auto [along_rows, along_keys] = d.of({std::pair{8, 1}, {4, 1}, {2, 2}, {1, 4}});
  const cuda::codegen::attention::AttentionShape shape{along_rows, along_keys,
                                                       static_cast<int>(16 * d.between(1, along_keys > 1 ? 2 : 4))};
  AttentionCase c;
  do c = draw_attention(d, shape.keys());
  while (c.depth + c.columns > 256);  // stages of more have fewer keys
  return attended(d, name, c, shape);
}

Case attention_of_groups(Draw& d, const std::string& name) {
  const int groups = d.coin() ? 2 : 1;
  const cuda::codegen::attention::AttentionShape shape{4 * groups, 1, d.coin() ? 128 : 64, groups};
  while (true) {
    const AttentionCase c = draw_attention(d, shape.keys());
    std::string why;
    const auto found = attention_of(attention(c, DType::f32, masked), why);
    if (found && cuda::codegen::attention::group_bytes(*found, shape) <= most_shared_bytes)
      return attended(d, name, c, shape);
  }
}

// Tiles of every kind with as many stages as there is room for or few, and more steps than stages.
Case tiles(Draw& d, const std::string& name) {
  const auto shapes = cuda::codegen::products::tile_shapes();
  while (true) {
    cuda::codegen::products::TileShape s =
        shapes[static_cast<size_t>(d.between(0, static_cast<int64_t>(shapes.size()) - 1))];
    s.stages = static_cast<int>(d.between(s.groups && !s.specialized ? 3 : 2, 8));
    s.pieces = s.specialized ? 1 : static_cast<int>(d.of({1, 1, 1, 2, 3}));
    const bool plain = s.groups || d.coin();
    const int64_t batch = plain ? 1 : d.between(1, 3), m = d.around(s.rows, 2), k = d.around(64, s.stages + 4);
    int64_t n = d.around(s.columns, 2), depth = k;
    if (plain) n = (n + 7) / 8 * 8, depth = (k + 7) / 8 * 8;
    if (batch * m * n * depth > 4 * most_work) continue;
    const DType type = !s.groups && d.between(0, 4) == 0 ? DType::f32 : half(d);
    const Kernel kernel = plain ? linear(m, n, depth, type, type, type, gelu)
                                : batched_product(batch, m, n, depth, d.coin(), d.coin(), type);
    std::string why;
    const auto product = plan::find_product(kernel, why);
    if (!product || !cuda::codegen::products::tiles_decline(*product).empty() ||
        !cuda::codegen::products::takes(s, *product) ||
        cuda::codegen::products::shared_bytes_of(*product, s) > most_shared_bytes ||
        s.pieces > cuda::codegen::products::steps_of(*product))
      continue;
    Case one = tiled(
        fmt::format("{}_{}_{}stages_{}pieces_{}x{}x{}x{}", name, name_of(s), s.stages, s.pieces, batch, m, n, depth),
        kernel, s);
    if (s.specialized && d.coin())
      one.made.shape.blocks = d.between(1, one.made.shape.blocks);  // several tiles to each
    return one;
  }
}

Case dots(Draw& d, const std::string& name) {
  const cuda::codegen::products::DotShape shape{d.of({1, 2, 4}), d.of({1, 2, 4, 8})};
  const int64_t m = d.between(1, 8), n = d.around(shape.lines, 40), k = 8 * d.around(32 * shape.warps, 4);
  const DType type = half(d);
  Kernel kernel = linear(m, n, k, type, type, type, gelu);
  kernel.name = fmt::format("{}_{}lines_{}warps_{}x{}x{}", name, shape.lines, shape.warps, m, n, k);
  std::string why;
  auto product = plan::find_product(kernel, why);
  std::vector<bool> ahead(kernel.args.size());
  product->b.ahead = ahead[static_cast<size_t>(product->b.arg)] = d.coin();
  cuda::codegen::GeneratedKernel made = cuda::codegen::products::make_dots(kernel, *product, shape, any);
  made.symbol = cuda::codegen::function_name(kernel, *product);
  return {kernel.name, kernel, std::move(made), std::move(ahead)};
}

// A normalization of the rows of a concatenation, whose second part lies across; or a softmax; or a sum along rows that
// lie side by side.
Kernel draw_row_kernel(Draw& d) {
  const int64_t batch = d.between(1, 4), rows = d.around(32, 3), n = d.around(32, 12);
  const DType type = half(d);
  const int64_t kind = d.between(0, 2);
  KernelBuilder k({batch, rows + 1, n}, 1);
  const int out = k.output({kind == 2 ? DType::f32 : type, {batch, rows + 1, n}});
  Ex x = k.integer(0);
  if (kind == 0) {
    const int a = k.input({type, {batch, 1, n}}), b = k.input({type, {batch, n, rows + 1}});
    const Ex first = k.load(a, std::vector<Coord>{k.dim(0), Coord(int64_t{0}), k.dim(2)});
    x = select(k.index(1) < k.integer(1), first, k.load(b, std::vector<Coord>{k.dim(0), k.dim(2), k.dim(1)}));
  } else {
    x = k.load_broadcast(k.input({type, {batch, rows + 1, n}}));
  }
  if (kind == 1) {
    const Ex e = exp(x - k.reduce(Reduction::max, x));
    k.store(out, e / k.reduce(Reduction::sum, e));
  } else {
    const Ex c = x - k.reduce(Reduction::sum, x) / static_cast<double>(n);
    k.store(out, c * rsqrt(k.reduce(Reduction::sum, c * c) / static_cast<double>(n) + 1e-5));
  }
  return k.finish("drawn_rows");
}

Case rows(Draw& d, const std::string& name) {
  Kernel kernel = draw_row_kernel(d);
  kernel.name = fmt::format("{}_{}x{}x{}", name, kernel.space[0], kernel.space[1], kernel.space[2]);
  cuda::codegen::GeneratedKernel made =
      cuda::codegen::choose::make_kernel(kernel, any, std::vector<bool>(kernel.args.size()));
  return {kernel.name, kernel, std::move(made)};
}

// As the program has them, of all steps: patches, depthwise, tiles of convolutions behind the packing of the weight,
// pieces of a long depth and their sum.
Steps convolution(Draw& d, const std::string& name) {
  while (true) {
    ConvCase c;
    const int64_t kind = d.between(0, 2);
    c.type = c.weight_type = half(d), c.batch = d.between(1, 3);
    c.in_channels = kind == 0 ? d.between(1, 4) : kind == 1 ? 1 : 8 * d.between(1, 9);
    c.groups = kind == 1 ? 8 * d.between(1, 5) : 1, c.out_channels = kind == 1 ? 1 : 8 * d.between(1, 9);
    for (size_t i = 0; i < 2; ++i) {
      c.kernel[i] = d.between(1, 7), c.stride[i] = d.between(1, 3), c.dilation[i] = d.of<int64_t>({1, 1, 2});
      c.pad[i] = d.between(0, c.kernel[i] / 2), c.input[i] = d.between(c.kernel[i] * c.dilation[i], 40);
    }
    const int64_t work = c.batch * c.groups * c.in_channels * c.out_channels * c.kernel[0] * c.kernel[1] * c.input[0] *
                         c.input[1] / c.stride[0] / c.stride[1];
    if (work > most_work) continue;
    Kernel kernel = conv(c, gelu);
    kernel.name = fmt::format("{}_{}x{}x{}_{}x{}_over_{}x{}", name, c.groups, c.in_channels, c.out_channels,
                              c.kernel[0], c.kernel[1], c.input[0], c.input[1]);
    return {kernel.name, kernel, 0};
  }
}

Steps split_depth(Draw& d, const std::string& name) {
  const int64_t m = d.between(9, 40), n = 8 * d.between(2, 6), k = 64 * d.between(40, 90);
  const DType type = half(d);
  Kernel kernel = linear(m, n, k, type, type, type, gelu);
  kernel.name = fmt::format("{}_{}x{}x{}", name, m, n, k);
  return {kernel.name, kernel, 0};
}

Steps split_keys(Draw& d, const std::string& name) {
  AttentionCase c;
  c.type = half(d), c.queries = d.between(1, 4), c.group = d.between(1, 7), c.keys = 64 * d.between(8, 24);
  c.depth = c.columns = 8 * d.between(1, 16), c.safe = d.coin();
  Scored scored = draw_score(d, c.keys);
  while (scored.counted) scored = draw_score(d, c.keys);
  Kernel kernel = attention(c, scored.mask, scored.score);
  kernel.name = fmt::format("{}_{}_{}x{}_of_{}_by_{}", name, scored.name, c.group, c.queries, c.keys, c.depth);
  return {kernel.name, kernel, 0};
}

// So many at once: a text of theirs is compiled at once.
constexpr size_t at_once = 64;

TEST(CudaSearch, KernelsAlone) {
  const int64_t count = drawn_cases(1);
  using Family = Case (*)(Draw&, const std::string&);
  const std::pair<const char*, Family> families[] = {{"warps", attention_of_warps},
                                                     {"groups", attention_of_groups},
                                                     {"groups", attention_of_groups},
                                                     {"tiles", tiles},
                                                     {"tiles", tiles},
                                                     {"dots", dots},
                                                     {"rows", rows}};
  std::vector<Case> cases;
  for (int64_t n = 0; n < count; ++n)
    for (size_t f = 0; f < std::size(families); ++f) {
      const uint64_t seed = first_seed() + static_cast<uint64_t>(n) * std::size(families) + f;
      Draw d(seed);
      cases.push_back(families[f].second(d, fmt::format("{}{}", families[f].first, seed)));
      if (cases.size() == at_once) check(cases, true), cases.clear();
    }
  if (!cases.empty()) check(cases, true);
}

TEST(CudaSearch, KernelsAsTheTargetHasThem) {
  const int64_t count = drawn_cases(1);
  using Family = Steps (*)(Draw&, const std::string&);
  const std::pair<const char*, Family> families[] = {
      {"conv", convolution}, {"conv", convolution}, {"depth", split_depth}, {"keys", split_keys}};
  std::vector<Steps> all;
  for (int64_t n = 0; n < count; ++n)
    for (size_t f = 0; f < std::size(families); ++f) {
      const uint64_t seed = first_seed() + 1'000'000 + static_cast<uint64_t>(n) * std::size(families) + f;
      Draw d(seed);
      all.push_back(families[f].second(d, fmt::format("{}{}", families[f].first, seed)));
      if (all.size() == at_once / 2) check_steps(all, true), all.clear();
    }
  if (!all.empty()) check_steps(all, true);
}

// Scaled dot products without a mask, three stages and more: keys behind the second stage are others than those before.
TEST(CudaSearch, WarpgroupsWithoutAMaskWalkAllStages) {
  std::vector<Case> cases;
  for (const auto& [groups, stage, stages] : {std::tuple{1, 64, 3}, {2, 128, 3}, {1, 128, 4}, {2, 64, 4}}) {
    AttentionCase c;
    c.type = stage == 64 ? DType::f16 : DType::bf16, c.kv_heads = 2, c.queries = 70, c.depth = c.columns = 64;
    c.keys = stages * stage - 36;
    const Kernel kernel = attention(c, DType::f32, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 0.125; });
    cases.push_back(
        shaped(fmt::format("unmasked{}_{}_{}", groups, stage, stages), kernel, {4 * groups, 1, stage, groups}));
  }
  check(cases, true);
}

// A fault of that kind is seen: a sum in front of a product, without its parentheses.
TEST(CudaSearch, SeesKeysOfAWrongStage) {
  AttentionCase c;
  c.type = DType::f16, c.queries = 64, c.keys = 190, c.depth = c.columns = 64, c.kv_heads = 1;
  Case one = shaped("wrong_stage", attention(c, DType::f32, [](KernelBuilder&, Ex leaf, Ex) { return leaf * 2.0; }),
                    {4, 1, 64, 1});
  const std::string right = "(next + 1) * 64", wrong = "next + 1 * 64";
  const size_t at = one.made.functions.find(right);
  ASSERT_NE(at, std::string::npos);
  one.made.functions.replace(at, right.size(), wrong);
  TextRunner machine(std::vector<cuda::Source>{{one.made.symbol, one.made.functions}});
  ASSERT_EQ(machine.error(), "");
  const std::vector<HostTensor> given = random_memory(one.kernel, 1);
  std::vector<HostTensor> expected = given;
  std::vector<void*> args;
  for (HostTensor& t : expected) args.push_back(t.data.data());
  evaluate(one.kernel, args);
  EXPECT_NE(difference(one, expected, execute(one, machine, given, mslx::Order::forward), true), "");
}

struct ModelAttention {
  const char* name;
  int64_t batch, heads, length, size;
};

// Of 40 rows that are drawn, in double precision: the interpreter would take hours for all of them.
double distance_of_some_rows(const ModelAttention& m, DType type, const std::vector<HostTensor>& memory,
                             const std::vector<HostTensor>& found) {
  Draw d(1);
  double apart = 0, whole = 0;
  const auto at = [&](const HostTensor& t, int64_t batch, int64_t row, int64_t head, int64_t e) {
    return load_double(t.data.data(), type, ((batch * m.length + row) * m.heads + head) * m.size + e);
  };
  for (int n = 0; n < 40; ++n) {
    const int64_t batch = d.between(0, m.batch - 1), head = d.between(0, m.heads - 1), row = d.between(0, m.length - 1);
    std::vector<double> weights(static_cast<size_t>(m.length)), sums(static_cast<size_t>(m.size));
    double most = -infinity, total = 0;
    for (int64_t key = 0; key < m.length; ++key) {
      double dot = 0;
      for (int64_t e = 0; e < m.size; ++e)
        dot += at(memory[0], batch, row, head, e) * at(memory[1], batch, key, head, e);
      weights[static_cast<size_t>(key)] = dot / std::sqrt(static_cast<double>(m.size));
      most = std::max(most, weights[static_cast<size_t>(key)]);
    }
    for (double& weight : weights) total += weight = std::exp(weight - most);
    for (int64_t key = 0; key < m.length; ++key)
      for (int64_t e = 0; e < m.size; ++e)
        sums[static_cast<size_t>(e)] += weights[static_cast<size_t>(key)] / total * at(memory[2], batch, key, head, e);
    for (int64_t e = 0; e < m.size; ++e) {
      const double expected = sums[static_cast<size_t>(e)], off = at(found[4], batch, row, head, e) - expected;
      apart += off * off, whole += expected * expected;
    }
  }
  return std::sqrt(apart / whole);
}

// Attentions of models, whole, as the target makes them: of Whisper-small's encoder and of a UNet's three levels.
TEST(CudaShapes, AttentionOfModels) {
  const DeviceInfo device = cuda::probe_device();
  if (!device.usable) GTEST_SKIP() << "SKIP: " << device.description;
  const bool hopper = device.description.find("sm_90") != std::string::npos;
  for (const ModelAttention& m : {ModelAttention{"whisper", 1, 6, 1500, 64},
                                  {"unet40", 2, 8, 4096, 40},
                                  {"unet80", 2, 8, 1024, 80},
                                  {"unet160", 2, 8, 256, 160}})
    for (const DType type : {DType::f16, DType::bf16})
      for (const bool groups : {false, true}) {
        if (groups && !hopper) continue;
        AttentionCase c;
        c.batch = m.batch, c.kv_heads = m.heads, c.queries = c.keys = m.length, c.depth = c.columns = m.size;
        c.type = type;
        const double scale = 1 / std::sqrt(static_cast<double>(m.size));
        Kernel kernel = attention(c, DType::boolean, [&](KernelBuilder&, Ex leaf, Ex) { return leaf * scale; });
        kernel.name = fmt::format("{}_{}{}", m.name, dtype_name(type), groups ? "_groups" : "");
        SCOPED_TRACE(kernel.name);
        cuda::codegen::GeneratedKernel made = cuda::codegen::choose::make_kernel(kernel, groups ? npusim::hopper : any,
                                                                                 std::vector<bool>(kernel.args.size()));
        TextRunner machine(std::vector<cuda::Source>{{made.symbol, made.functions}});
        ASSERT_EQ(machine.error(), "");
        const std::vector<HostTensor> memory = random_memory(kernel, 1);
        const Case one{kernel.name, kernel, std::move(made)};
        const double apart =
            distance_of_some_rows(m, type, memory, execute(one, machine, memory, mslx::Order::forward));
        EXPECT_LT(apart, type == DType::f16 ? 2e-3 : 1.6e-2) << one.made.how;
        std::printf("%s: %.2e (relative L2), %s\n", kernel.name.c_str(), apart, one.made.how.c_str());
      }
}

}  // namespace
}  // namespace npusim
