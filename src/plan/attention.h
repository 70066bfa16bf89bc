// An attention as units that multiply tiles see it: how queries, keys and values are walked in words of 16 bytes.
#pragma once
#include <optional>
#include <string>

#include "kernel/facts/attention_axes.h"
#include "plan/product.h"

namespace npusim::plan {

// result[batch, row, column] = Σ over keys of softmax(score[batch, row, key]) · v[batch, key, column], where the score
// is an expression around Σ over depth of q[batch, row, depth] · k[batch, key, depth]; q, k, v of one 16-bit type. What
// a row reads is there for all its keys, and all rows have as many of them.
struct Attention {
  DType dtype = DType::f16;
  AttentionAxes axes;
  int64_t keys = 0, columns = 0;
  Operand q, k;  // over the score's space ++ reduce, in words along the depth
  Operand v;     // over the kernel's space ++ reduce, in words along the columns
};

// Of a kernel that is an attention of these axes. Why it is no such one in `why`, then.
std::optional<Attention> find_attention(const Kernel& kernel, const AttentionAxes& axes, std::string& why);

}  // namespace npusim::plan
