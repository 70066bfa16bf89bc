// The dimensions of an attention by role.
#pragma once
#include <optional>

#include "kernel/facts/product_axes.h"

namespace npusim {

// result[batch, rows, columns] = Σ over keys of softmax(score[batch, rows, keys]) · b[batch, keys, columns], where the
// score's product is over depth. Dimensions count over the score's space ++ reduce, which for batch and rows are those
// of the kernel's too; columns and value_keys over the kernel's space ++ reduce.
struct AttentionAxes {
  Axis batch, rows, keys, depth, columns, value_keys;
  bool swapped = false;  // the score's product has the keys in operand a and the queries in b
};
// nullopt when both operands of the score depend on the keys.
std::optional<AttentionAxes> attention_axes(const Kernel& kernel);
// The log of the sum of an attention's weights, its contraction's second value.
bool is_log_of_sum(const Expr& expr);
// Whether it computes with that too.
bool takes_log(const Kernel& kernel);

}  // namespace npusim
