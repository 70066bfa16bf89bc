// An epilogue as a chain of operations that libraries apply to a product themselves.
#pragma once
#include <optional>
#include <vector>

#include "kernel/kernel.h"

namespace npusim::cpu {

enum class Activation : uint8_t { relu, clip, linear, logistic, tanh, swish, hardswish, gelu_erf, gelu_tanh };

struct PostOp {
  int add = -1;  // index into kernel.accesses of what is added; -1: an activation
  Activation activation = Activation::relu;
  float alpha = 0, beta = 0;  // relu: slope below 0; clip: bounds; linear: alpha·x + beta
};

// The operations from the contraction's leaf to expression `expr`, first one first; nullopt when there is another.
std::optional<std::vector<PostOp>> match_post_ops(const Kernel& kernel, int32_t expr);

}  // namespace npusim::cpu
