// The nucleus of a distribution: the fewest of the likeliest tokens that have a given probability together.
#pragma once
#include <optional>

#include "graph/graph.h"
#include "kernel/builder.h"

namespace npusim {

// Kernels have found it: a token is of the nucleus where `contains` says so of its key.
struct Nucleus {
  ValueId keys = no_value;        // i64 [vocabulary]: a token's weight and index in one number
  ValueId thresholds = no_value;  // i64: the largest is the key of the last token that is taken
  ValueId top_p = no_value;
};

// Appends the kernels that find the tokens which have `top_p` (f32 [1]) of softmax(logits / temperature) together; of
// equally likely tokens the first are taken, and the likeliest always is. They search `parts` equal parts of the
// vocabulary. nullopt where the vocabulary has too many tokens to count them.
std::optional<Nucleus> find_nucleus(Graph& graph, ValueId logits, ValueId temperature, ValueId top_p, int64_t parts);

// In a kernel one of whose dimensions is a part and another one a token of it: whether the token at `position` is
// taken. `keys`, `thresholds` and `top_p` are the kernel's arguments of these values.
Ex contains(KernelBuilder& k, int keys, int thresholds, int top_p, const Affine& position);

}  // namespace npusim
