// Chains of operations behind a contraction.
#include "kernel/facts/epilogue_chain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel/contractions.h"
#include "kernel/evaluate.h"
#include "kernel/facts/epilogue_kernel.h"

namespace npusim {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// "linear 2 1, add %3": what is added is named by its argument.
std::string show(const Kernel& kernel) {
  constexpr const char* names[] = {"linear", "clip",      "leaky_relu", "logistic", "tanh",
                                   "swish",  "hardswish", "gelu_erf",   "gelu_tanh"};
  const auto chain = epilogue_chain(kernel);
  if (!chain) return "none";
  std::string text;
  for (const EpilogueOp& op : *chain) {
    if (!text.empty()) text += ", ";
    if (op.add >= 0)
      text += fmt::format("add %{}", kernel.accesses[static_cast<size_t>(op.add)].arg);
    else if (op.activation <= Activation::leaky_relu)
      text += fmt::format("{} {} {}", names[static_cast<size_t>(op.activation)], op.alpha, op.beta);
    else
      text += names[static_cast<size_t>(op.activation)];
  }
  return text;
}

// The bias is argument 2, the residual 3.
template <typename Epilogue>
std::string chain_of(Epilogue&& epilogue) {
  return show(linear(5, 6, 7, DType::f32, DType::f32, DType::f32, epilogue));
}

TEST(EpilogueChain, OperationsInTheirOrder) {
  using B = KernelBuilder;
  EXPECT_EQ(chain_of(plain), "");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex bias, Ex) { return x + bias; }), "add %2");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex bias, Ex residual) { return max(residual + (bias + x), 0.0); }),
            fmt::format("add %2, add %3, clip 0 {}", infinity));
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return min(max(x, -1.0), 6.0); }), "clip -1 6");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return min(max(x, 3.0), 1.0); }), "clip 1 1");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return x * 2.0 + 1.0; }), "linear 2 -0, linear 1 1");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return x / 4.0; }), "linear 0.25 -0");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return 3.0 - x; }), "linear -1 3");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return select(x > 0.0, x, x * 0.5); }), "leaky_relu 0.5 0");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return tanh(x); }), "tanh");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return 1.0 / (1.0 + exp(-x)); }), "logistic");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex bias, Ex) {
              const Ex y = x + bias;
              return y / (1.0 + exp(-y));
            }),
            "add %2, swish");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return x * min(max(x + 3.0, 0.0), 6.0) / 6.0; }), "hardswish");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return x * 0.5 * (1.0 + erf(x / std::sqrt(2.0))); }), "gelu_erf");
}

TEST(EpilogueChain, WhatOnlyLooksLikeOneIsNone) {
  using B = KernelBuilder;
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return abs(x); }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return x * x; }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex bias, Ex) { return x * bias; }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex bias, Ex) { return max(x, bias); }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return select(x > 5e-4, x, 0.0); }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return select(x > 0.0, x, x * 0.0); }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return max(x, std::nan("")); }), "none");
  EXPECT_EQ(chain_of([](B&, Ex x, Ex, Ex) { return x * 0.5 * (1.0 + erf(x / 1.5)); }), "none");
  EXPECT_EQ(chain_of([](B&, Ex, Ex bias, Ex) { return bias; }), "none");  // not of the contraction at all
}

TEST(EpilogueChain, OneStoreThatOnlyStores) {
  Kernel kernel = linear(5, 6, 7, DType::f32, DType::f32, DType::f32, plain);
  kernel.stores[0].accumulate = true;
  EXPECT_FALSE(epilogue_chain(kernel));
  kernel.stores[0].accumulate = false;
  EXPECT_TRUE(epilogue_chain(kernel));
  kernel.stores.push_back(kernel.stores[0]);
  EXPECT_FALSE(epilogue_chain(kernel));
}

// The contraction's value written out, in rows farther apart than they are long, and the epilogue run on it: the same
// as the kernel as a whole.
TEST(EpilogueKernel, ReadsTheContractionFromMemory) {
  const auto epilogue = [](KernelBuilder& b, Ex x, Ex bias, Ex residual) {
    return max(x + bias, 0.0) * residual + b.cast(b.index(1), Scalar::f32);
  };
  constexpr int64_t rows = 5, columns = 6, depth = 7, ld = 8;
  const Kernel whole = linear(rows, columns, depth, DType::f32, DType::f32, DType::f32, epilogue);
  const ProductAxes axes = product_axes(whole);
  const EpilogueKernel split = make_epilogue(whole, tile_strides(2, axes.rows, axes.columns, ld));
  ASSERT_TRUE(check_kernel(split.kernel).empty()) << check_kernel(split.kernel)[0];
  EXPECT_FALSE(split.kernel.contraction);

  std::vector<std::vector<float>> memory;
  for (const KernelArg& arg : whole.args) {
    memory.emplace_back(static_cast<size_t>(arg.elements));
    for (size_t i = 0; i < memory.back().size(); ++i)
      memory.back()[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 4;
  }
  std::vector<void*> args;
  for (auto& values : memory) args.push_back(values.data());
  evaluate(whole, args);
  const std::vector<float> expected = memory.back();
  evaluate(linear(rows, columns, depth, DType::f32, DType::f32, DType::f32, plain), args);
  std::vector<float> leaf(rows * ld), result(rows * columns);
  for (size_t i = 0; i < result.size(); ++i) leaf[i / columns * ld + i % columns] = memory.back()[i];
  args.back() = result.data();
  args.insert(args.begin() + split.leaf, leaf.data());
  evaluate(split.kernel, args);
  EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace npusim
