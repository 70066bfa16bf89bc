// Gumbel's trick: the largest of x + temperature * g, with each token's own g, is a token drawn.
#include "text/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernel/draw.h"

namespace npusim {
namespace {

// Philox4x32-10, as kernel/draw.cpp has it in kernels: the first of its words.
uint32_t random_word(uint64_t key, uint64_t call, uint64_t element) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(call), static_cast<uint32_t>(call >> 32),
                               static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32)};
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(a)};
  }
  return c[0];
}

// Of Gumbel's distribution, from Draw's exponential one in float32.
float gumbel(uint32_t word) {
  const float uniform = static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
  return -std::log(uniform >= 1 - 0x1p-24f ? 0x1p-24f : -std::log(uniform));
}

// By token, whether it is one of those that are drawn from.
std::vector<bool> likely(const std::vector<double>& logits, double temperature, double top_p) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  double sum = 0, kept = 0;
  for (const size_t token : order)
    sum += weights.emplace_back(std::exp((logits[token] - logits[order[0]]) / temperature));
  std::vector<bool> found(logits.size(), false);
  for (size_t i = 0; i < order.size() && (i == 0 || kept < top_p * sum); ++i) {
    found[order[i]] = true;
    kept += weights[i];
  }
  return found;
}

}  // namespace

int64_t likeliest(const std::vector<double>& logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

int64_t draw_token(const std::vector<double>& logits, double temperature, double top_p, uint64_t seed, int64_t nth) {
  const std::vector<bool> taken =
      top_p < 1 ? likely(logits, temperature, top_p) : std::vector<bool>(logits.size(), true);
  const auto call = static_cast<uint64_t>(sampling_calls + nth);
  const auto heat = static_cast<float>(temperature);
  size_t best = 0;
  float top = 0;
  bool found = false;
  for (size_t token = 0; token < logits.size(); ++token) {
    if (!taken[token]) continue;
    const float score = static_cast<float>(logits[token]) + heat * gumbel(random_word(seed, call, token));
    if (!found || score > top) best = token, top = score;
    found = true;
  }
  return static_cast<int64_t>(best);
}

}  // namespace npusim
