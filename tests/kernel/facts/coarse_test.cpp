// What may be a few steps of float32 beside the exact value.
#include "kernel/facts/coarse.h"

#include <gtest/gtest.h>

#include "kernel/builder.h"

namespace npusim {
namespace {

// "exp near, div exact": the exponentials and quotients of a row of eight, stored as `dtype`. A quotient is "near"
// whose divisor is at least 1 too, an exponential "flushed" that only sums with what is at least 1 read.
template <typename Formula>
std::string show(DType dtype, Formula&& formula) {
  KernelBuilder b({2, 8}, 1);
  const int x = b.input({DType::f16, {2, 8}}), y = b.input({DType::f16, {2, 8}}), out = b.output({dtype, {2, 8}});
  b.store(out, formula(b, b.load_broadcast(x), b.load_broadcast(y)));
  const Kernel kernel = b.finish("kernel");
  const Coarseness facts = coarseness_of(kernel);
  std::string text;
  for (size_t i = 0; i < kernel.exprs.size(); ++i) {
    const Expr& e = kernel.exprs[i];
    if (e.op != ExprOp::exp && e.op != ExprOp::div) continue;
    const bool near = facts.coarse[i] && (e.op == ExprOp::exp || facts.at_least_one[static_cast<size_t>(e.in[1])]);
    if (!text.empty()) text += ", ";
    text += e.op == ExprOp::exp ? "exp " : "div ";
    text += near ? facts.next_to_one[i] ? "flushed" : "near" : "exact";
  }
  return text;
}

const auto silu = [](KernelBuilder&, Ex x, Ex) { return x / (1.0 + exp(-x)); };

TEST(Coarse, WhatIsStoredIn16Bits) {
  EXPECT_EQ(show(DType::bf16, silu), "exp flushed, div near");
  EXPECT_EQ(show(DType::f16, silu), "exp flushed, div near");
  EXPECT_EQ(show(DType::f32, silu), "exp exact, div exact");
  EXPECT_EQ(show(DType::f32, [](KernelBuilder& b, Ex x, Ex y) { return b.round_to(silu(b, x, y), DType::bf16) * y; }),
            "exp flushed, div near");
  EXPECT_EQ(show(DType::bf16, [](KernelBuilder& b, Ex x, Ex y) { return silu(b, x, y) * y; }), "exp flushed, div near");
}

TEST(Coarse, ErrorsThatGrow) {
  // What is left of a difference, steps, comparisons, whole numbers, angles.
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex y) { return exp(x) - exp(y); }), "exp exact, exp exact");
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex y) { return exp(x) + y; }), "exp exact");
  EXPECT_EQ(show(DType::f16, [](KernelBuilder& b, Ex x, Ex y) { return b.unary(ExprOp::floor, y / (1.0 + exp(x))); }),
            "exp exact, div exact");
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex y) { return select(exp(x) > y, x, y); }), "exp exact");
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex y) { return sin(exp(x)) * y; }), "exp exact");
  // One of two readers is enough.
  EXPECT_EQ(show(DType::f16,
                 [](KernelBuilder&, Ex x, Ex y) {
                   const Ex e = exp(x);
                   return e * y * select(e > 2.0, x, y);
                 }),
            "exp exact");
}

TEST(Coarse, QuotientsAndSmallNumbers) {
  // A divisor that may be small, and an exponential that is more than a part of 1 + exp(x).
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex y) { return x / y; }), "div exact");
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex) { return exp(x) * 2.0; }), "exp near");
  EXPECT_EQ(show(DType::f16, [](KernelBuilder&, Ex x, Ex) { return 0.5 + exp(x); }), "exp near");
  EXPECT_EQ(show(DType::f16,
                 [](KernelBuilder&, Ex x, Ex) {
                   const Ex e = exp(x);
                   return e / (1.0 + e);
                 }),
            "exp near, div near");
  EXPECT_EQ(show(DType::f16,
                 [](KernelBuilder& b, Ex x, Ex) {
                   const Ex e = exp(x - b.reduce(Reduction::max, x));
                   return e / b.reduce(Reduction::sum, e);
                 }),
            "exp near, div exact");
}

}  // namespace
}  // namespace npusim
