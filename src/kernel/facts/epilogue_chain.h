// An epilogue as a chain of operations, each on the value of the one before: what libraries apply to a product
// themselves.
#pragma once
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

enum class Activation : uint8_t { linear, clip, leaky_relu, logistic, tanh, swish, hardswish, gelu_erf, gelu_tanh };

// Whatever is added or applied, NaN stays NaN.
struct EpilogueOp {
  int add = -1;  // index into kernel.accesses of what is added; -1: an activation
  Activation activation = Activation::linear;
  // linear: alpha·x + beta; clip: min(max(x, alpha), beta) with alpha <= beta, either may be infinite; leaky_relu: x
  // above 0, else alpha·x, alpha not 0; swish: x / (1 + exp(−x)); hardswish: x·min(max(x + 3, 0), 6) / 6
  float alpha = 0, beta = 0;
};

// The operations from the contraction's leaf to what is stored, first one first, recognised by the form of the
// expressions. nullopt when there is another, and when there is not one store that only stores.
std::optional<std::vector<EpilogueOp>> epilogue_chain(const Kernel& kernel);

}  // namespace npusim
