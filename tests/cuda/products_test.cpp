// Products as the CUDA target makes them, executed (on the CPU where there is no GPU) and compared with the reference:
// every tile and every split of dot products, operands in every order of memory, edges of every kind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "backends/cuda/target/dot.h"
#include "backends/cuda/target/parts.h"
#include "backends/cuda/target/text.h"
#include "backends/cuda/target/tile.h"
#include "cuda/harness/machine.h"
#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "print/nvrtc.h"
#include "print/print.h"

namespace npusim {
namespace {

using cuda::Made;

struct Case {
  std::string name;
  Kernel kernel;
  Made made;
  std::vector<bool> ahead = {};  // by argument; empty: none
};

// The second operand is there ahead, as a weight is.
std::vector<bool> second_ahead(const Kernel& kernel) {
  std::vector<bool> ahead(kernel.args.size());
  ahead[1] = !kernel.args[1].written;
  return ahead;
}

std::vector<HostTensor> random_memory(const Kernel& kernel, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  std::vector<HostTensor> memory;
  for (const KernelArg& arg : kernel.args) {
    HostTensor t = make_tensor({arg.dtype, {arg.elements}});
    std::fill(t.data.begin(), t.data.end(), std::byte{0xff});
    if (arg.updates >= 0)
      t.data = memory[static_cast<size_t>(arg.updates)].data;
    else if (!arg.written)
      for (int64_t i = 0; i < arg.elements; ++i) {
        if (is_float(arg.dtype))
          store_double(t.data.data(), arg.dtype, i, real(random));
        else
          store_int(t.data.data(), arg.dtype, i, static_cast<int64_t>(random() % 4));
      }
    memory.push_back(std::move(t));
  }
  return memory;
}

std::vector<HostTensor> execute(const Case& c, Machine& machine, std::vector<HostTensor> memory, mslx::Order order) {
  EXPECT_EQ(
      machine.run(c.kernel, c.made, memory, order, c.ahead.empty() ? std::vector<bool>(c.kernel.args.size()) : c.ahead),
      "")
      << c.name;
  return memory;
}

// Sums of n terms of random signs, in another order: a few steps of float32 each, and one of the result's dtype.
std::string difference(const Case& c, const std::vector<HostTensor>& expected, const std::vector<HostTensor>& found) {
  for (size_t n = 0; n < expected.size(); ++n) {
    const KernelArg& arg = c.kernel.args[n];
    if (!arg.written) continue;
    const double step = arg.dtype == DType::f32 ? 0x1p-16 : arg.dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
    for (int64_t i = 0; i < arg.elements; ++i) {
      const double a = load_double(expected[n].data.data(), arg.dtype, i),
                   b = load_double(found[n].data.data(), arg.dtype, i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= step * std::max(1.0, std::fabs(a)))
        continue;
      return fmt::format("{}: argument {} element {}: expected {}, found {}", c.name, n, i, a, b);
    }
  }
  return {};
}

void check(const std::vector<Case>& cases) {
  std::string functions;
  std::set<std::string> symbols;
  for (const Case& c : cases)
    if (symbols.insert(c.made.symbol).second) functions += c.made.functions;
  ASSERT_EQ(symbols.size(), cases.size());
  if (has_nvrtc()) {
    const std::vector<std::string> source{with_helpers(functions, cuda_dialect)}, architectures{"sm_80", "sm_90a"};
    for (const std::string& problem : check_cuda(source, architectures).problems) ADD_FAILURE() << problem;
  }
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  unsigned seed = 1;
  for (const Case& c : cases) {
    const std::vector<HostTensor> memory = random_memory(c.kernel, seed++);
    std::vector<HostTensor> expected = memory;
    std::vector<void*> args;
    for (HostTensor& t : expected) args.push_back(t.data.data());
    evaluate(c.kernel, args);
    const std::vector<HostTensor> found = execute(c, machine, memory, mslx::Order::forward);
    EXPECT_EQ(difference(c, expected, found), "");
    const std::vector<HostTensor> again = execute(c, machine, memory, mslx::Order::random);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].data == again[i].data) << c.name << " depends on the order of threads";
  }
}

// A name of its own for each, so that equal kernels under different shapes have functions of their own.
Case tiled(std::string name, Kernel kernel, const cuda::TileShape& shape) {
  kernel.name = name;
  std::string why;
  auto product = cuda::find_product(kernel, why);
  EXPECT_TRUE(product) << name << ": " << why;
  EXPECT_EQ(cuda::tiles_decline(*product), "");
  std::vector<bool> ahead(kernel.args.size());
  const size_t number = name.size() % 3;  // none, one or the other
  product->a.ahead = number == 1, product->b.ahead = number == 2;
  for (const cuda::Operand* o : {&product->a, &product->b}) ahead[static_cast<size_t>(o->arg)] = o->ahead;
  Made made = cuda::make_tiles(kernel, *product, shape);
  made.symbol = cuda::function_name(kernel, *product);
  return {std::move(name), std::move(kernel), std::move(made), std::move(ahead)};
}
Case chosen(std::string name, Kernel kernel, const std::string& how) {
  kernel.name = name;
  const std::vector<bool> ahead = second_ahead(kernel);
  Made made = cuda::make_kernel(kernel, ahead);
  EXPECT_TRUE(made.how.starts_with(how)) << name << ": " << made.how;
  return {std::move(name), std::move(kernel), std::move(made), ahead};
}

Ex gelu(KernelBuilder&, Ex leaf, Ex bias, Ex residual) {
  Ex x = leaf + bias;
  return x * 0.5 * (1.0 + erf(x * 0.70710678)) + residual;
}

// a [batch, m, k] or [batch, k, m], b [batch, n, k] or [batch, k, n].
Kernel product(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_across, bool b_across, DType type) {
  KernelBuilder b({batch, m, n});
  const int x = b.input({type, a_across ? Shape{batch, k, m} : Shape{batch, m, k}}),
            w = b.input({type, b_across ? Shape{batch, k, n} : Shape{batch, n, k}}),
            out = b.output({DType::f32, {batch, m, n}});
  const Coord z = b.dim(0), i = b.dim(1), j = b.dim(2), r = b.dim(3);
  const Coords x_at = a_across ? Coords{z, r, i} : Coords{z, i, r}, w_at = b_across ? Coords{z, r, j} : Coords{z, j, r};
  b.store(out, b.contract(ContractionKind::matmul, {k}, x, x_at, w, w_at));
  return b.finish("product");
}

TEST(CudaProducts, EveryTileOfALinearLayer) {
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes())
    for (const auto& [m, n, k] : {std::tuple{1, 8, 8}, {70, 72, 200}, {131, 136, 64}})
      cases.push_back(tiled(fmt::format("linear{}x{}_{}x{}x{}", s.rows, s.columns, m, n, k),
                            linear(m, n, k, DType::f16, DType::f16, DType::f16, gelu), s));
  check(cases);
}

TEST(CudaProducts, OperandsInEveryOrderOfMemory) {
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes())
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        cases.push_back(tiled(fmt::format("orders{}x{}_{}{}", s.rows, s.columns, a, b),
                              product(2, 72, 40, 136, a, b, a ? DType::bf16 : DType::f16), s));
  check(cases);
}

// Nothing is a multiple of anything: elements one by one.
TEST(CudaProducts, OddExtents) {
  std::vector<Case> cases;
  for (const cuda::TileShape& s : cuda::tile_shapes()) {
    cases.push_back(
        tiled(fmt::format("odd{}x{}", s.rows, s.columns), product(3, 37, 41, 67, false, true, DType::f16), s));
    cases.push_back(
        tiled(fmt::format("one{}x{}", s.rows, s.columns), product(1, 1, 1, 1, false, false, DType::bf16), s));
    cases.push_back(tiled(fmt::format("odd_linear{}x{}", s.rows, s.columns),
                          linear(19, 21, 33, DType::bf16, DType::bf16, DType::f32, gelu), s));
  }
  check(cases);
}

TEST(CudaProducts, Convolutions) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const ConvCase& c, const cuda::TileShape& s) {
    cases.push_back(tiled(name, conv(c, gelu), s));
  };
  int number = 0;
  for (const cuda::TileShape& s : cuda::tile_shapes()) {
    ConvCase c;
    c.type = c.weight_type = DType::f16;
    c.in_channels = 16, c.out_channels = 24, c.batch = 2;
    const std::string of = std::to_string(number++);
    add("conv" + of, c, s);
    c.stride = {2, 2}, c.kernel = {7, 7}, c.pad = {3, 3}, c.in_channels = 3, c.input = {15, 14};
    add("stem" + of, c, s);
    c.groups = 2, c.in_channels = 8, c.out_channels = 8, c.dilation = {2, 1}, c.kernel = {3, 3}, c.pad = {2, 1};
    add("grouped" + of, c, s);
    c.channels_last = false, c.type = c.weight_type = DType::bf16;
    add("channels_first" + of, c, s);
  }
  check(cases);
}

TEST(CudaProducts, DotsOfFewRows) {
  std::vector<Case> cases;
  for (const int64_t m : {1, 3, 8})
    for (const int64_t k : {8, 264, 1536, 4096})
      for (const int64_t n : {1, 9, 260})
        cases.push_back(chosen(fmt::format("dots{}_{}_{}", m, k, n),
                               linear(m, n, k, DType::bf16, DType::bf16, DType::bf16, gelu), "dots"));
  cases.push_back(chosen("dots_columns", product(1, 300, 2, 512, false, false, DType::f16), "dots"));
  cases.push_back(chosen("dots_batch", product(5, 2, 70, 256, false, false, DType::f16), "dots"));
  check(cases);
}

TEST(CudaProducts, EverySplitOfDots) {
  std::vector<Case> cases;
  for (const int lines : {1, 2, 4})
    for (const int warps : {1, 2, 4, 8}) {
      Kernel kernel = linear(3, 43, 1032, DType::f16, DType::f16, DType::f16, gelu);
      kernel.name = fmt::format("split{}_{}", lines, warps);
      std::string why;
      auto product = cuda::find_product(kernel, why);
      ASSERT_TRUE(product) << why;
      std::vector<bool> ahead(kernel.args.size());
      product->b.ahead = ahead[static_cast<size_t>(product->b.arg)] = lines != 2;
      Made made = cuda::make_dots(kernel, *product, {lines, warps});
      made.symbol = cuda::function_name(kernel, *product);
      cases.push_back({kernel.name, kernel, std::move(made), std::move(ahead)});
    }
  check(cases);
}

// Each copy has memory of its own, and none of the others'.
TEST(CudaProducts, SeveralAtOnce) {
  struct Several {
    Kernel kernel;
    int copies;
    std::string how;
  };
  std::vector<Several> all{{linear(40, 72, 136, DType::f16, DType::f16, DType::f16, gelu), 3, "tiles"},
                           {linear(130, 64, 64, DType::bf16, DType::bf16, DType::bf16, gelu), 2, "tiles"},
                           {linear(1, 43, 264, DType::bf16, DType::bf16, DType::bf16, gelu), 4, "dots"}};
  std::vector<Made> made;
  std::string functions;
  for (const auto& [kernel, copies, how] : all) {
    EXPECT_TRUE(cuda::several_at_once(kernel));
    made.push_back(cuda::make_kernel(kernel, second_ahead(kernel), copies));
    EXPECT_TRUE(made.back().how.starts_with(how)) << made.back().how;
    functions += made.back().functions;
  }
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (size_t n = 0; n < all.size(); ++n) {
    const Kernel& kernel = all[n].kernel;
    Case joined{"several", kernel, made[n]};
    joined.kernel.args.clear();
    for (int c = 0; c < all[n].copies; ++c) {
      joined.kernel.args.insert(joined.kernel.args.end(), kernel.args.begin(), kernel.args.end());
      const std::vector<bool> ahead = second_ahead(kernel);
      joined.ahead.insert(joined.ahead.end(), ahead.begin(), ahead.end());
    }
    const std::vector<HostTensor> given = random_memory(joined.kernel, static_cast<unsigned>(n));
    std::vector<HostTensor> expected = given;
    for (size_t first = 0; first < expected.size(); first += kernel.args.size()) {
      std::vector<void*> args;
      for (size_t i = 0; i < kernel.args.size(); ++i) args.push_back(expected[first + i].data.data());
      evaluate(kernel, args);
    }
    EXPECT_EQ(difference(joined, expected, execute(joined, machine, given, mslx::Order::random)), "");
  }
}

// A kernel as all the steps that the target makes of it.
struct Steps {
  std::string name;
  Kernel kernel;
  size_t count = 1;                   // of its parts
  std::vector<std::string> how = {};  // the first words of each, from the first on
};

void check_steps(const std::vector<Steps>& all) {
  std::string functions;
  std::set<std::string> symbols;
  std::vector<Unfused> parts;
  std::vector<std::vector<Made>> made;
  for (const Steps& s : all) {
    ASSERT_EQ(check_kernel(s.kernel), std::vector<std::string>{}) << s.name;
    parts.push_back(cuda::find_parts(s.kernel));
    std::string made_as;
    for (const BoundKernel& step : parts.back().steps)
      made_as += cuda::make_kernel(step.kernel, second_ahead(step.kernel)).how + "\n";
    ASSERT_EQ(parts.back().steps.size(), s.count) << s.name << "\n" << made_as;
    made.emplace_back();
    for (const BoundKernel& step : parts.back().steps) {
      ASSERT_EQ(check_kernel(step.kernel), std::vector<std::string>{}) << s.name << "\n" << to_text(step.kernel);
      made.back().push_back(cuda::make_kernel(step.kernel, second_ahead(step.kernel)));
      const size_t n = made.back().size() - 1;
      if (n < s.how.size()) {
        EXPECT_TRUE(made.back()[n].how.starts_with(s.how[n])) << s.name << ": " << made.back()[n].how;
      }
      if (symbols.insert(made.back()[n].symbol).second) functions += made.back()[n].functions;
    }
  }
  if (has_nvrtc()) {
    const std::vector<std::string> source{with_helpers(functions, cuda_dialect)}, architectures{"sm_80", "sm_90a"};
    for (const std::string& problem : check_cuda(source, architectures).problems) ADD_FAILURE() << problem;
  }
  Machine machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<HostTensor> given = random_memory(all[i].kernel, static_cast<unsigned>(i));
    std::vector<HostTensor> expected = given, found = given, interpreted;
    for (const Unfused::Scratch& s : parts[i].scratch) {
      found.push_back(make_tensor({s.dtype, {s.elements}}));
      std::fill(found.back().data.begin(), found.back().data.end(), std::byte{0xff});
    }
    interpreted = found;
    const auto interpret = [](const Kernel& kernel, std::vector<HostTensor>& memory, const std::vector<int>& values) {
      std::vector<void*> args;
      for (int v : values) args.push_back(memory[static_cast<size_t>(v)].data.data());
      evaluate(kernel, args);
    };
    std::vector<int> own(given.size());
    std::iota(own.begin(), own.end(), 0);
    interpret(all[i].kernel, expected, own);
    for (size_t n = 0; n < parts[i].steps.size(); ++n) {
      const BoundKernel& step = parts[i].steps[n];
      interpret(step.kernel, interpreted, step.values);
      std::vector<HostTensor> memory;
      for (int v : step.values) memory.push_back(found[static_cast<size_t>(v)]);
      const std::vector<HostTensor> after = execute({all[i].name, step.kernel, made[i][n], second_ahead(step.kernel)},
                                                    machine, memory, mslx::Order::random);
      for (size_t v = 0; v < step.values.size(); ++v)
        if (step.kernel.args[v].written) found[static_cast<size_t>(step.values[v])] = after[v];
    }
    EXPECT_EQ(difference({all[i].name + " interpreted", all[i].kernel, {}}, expected, interpreted), "");
    EXPECT_EQ(difference({all[i].name, all[i].kernel, {}}, expected, found), "");
  }
}

TEST(CudaProducts, PackedWeightsAndPiecesOfTheDepth) {
  ConvCase late;  // few pixels, a long depth
  late.type = late.weight_type = DType::f16;
  late.in_channels = 512, late.out_channels = 32, late.input = {4, 4};
  ConvCase early = late;
  early.in_channels = 16, early.out_channels = 40, early.input = {20, 18}, early.stride = {2, 2};
  check_steps(
      {{"late_conv", conv(late, gelu), 3, {"rows", "tiles", "rows"}},
       {"early_conv", conv(early, gelu), 2, {"rows", "tiles of 32x32, 4 stages, words by words"}},
       {"long_linear", linear(40, 64, 8192, DType::bf16, DType::bf16, DType::bf16, gelu), 2, {"tiles", "rows"}}});
}

Ex masked(KernelBuilder&, Ex leaf, Ex mask) { return leaf * 0.25 + mask; }

TEST(CudaProducts, AttentionAsProducts) {
  AttentionCase prefill, decode;
  prefill.type = decode.type = DType::f16;
  prefill.batch = 2, prefill.group = 2, prefill.queries = 21, prefill.keys = 48, prefill.depth = prefill.columns = 24;
  decode.type = DType::bf16, decode.queries = 1, decode.group = 3, decode.keys = 72, decode.depth = decode.columns = 64;
  check_steps({{"prefill", attention(prefill, DType::f32, masked), 3, {"tiles", "rows", "tiles"}},
               {"decode", attention(decode, DType::f32, masked), 3, {"dots", "rows", "tiles"}}});
}

}  // namespace
}  // namespace npusim
