// Which token comes next.
#pragma once
#include <cstdint>
#include <vector>

#include "npusim/text.h"

namespace npusim {

// How tokens are chosen, as options that were checked say it.
struct Sampling {
  double temperature = 0;  // 0: the likeliest
  double top_p = 1;
  uint64_t seed = 0;
};
Sampling sampling_of(const GenerateOptions& options);

// The likeliest token, the first of equals; NaN is above all.
int64_t likeliest(const std::vector<double>& logits);

// The token that the `nth` draw of this seed takes, with the probabilities of softmax(logits / temperature) among the
// likeliest tokens that have `top_p` of them together (the smallest such set). The numbers are those that a method
// draws with which takes its tokens itself (compiler/close_loop), so with all tokens it takes the same, but for the
// rounding of a logarithm.
int64_t draw_token(const std::vector<double>& logits, double temperature, double top_p, uint64_t seed, int64_t nth);

}  // namespace npusim
