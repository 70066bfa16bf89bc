// Gumbel's trick: the largest of x + temperature * g, with each token's own g, is a token drawn.
#include "text/sample.h"

#include <fmt/format.h>

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

// NaN counts as the largest, as PyTorch's argmax and the methods that take their tokens themselves have it.
bool is_less(double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); }

// By token, whether it is one of those that are drawn from. Weights are the whole numbers of compiler/nucleus, so that
// the same tokens are taken here and there.
std::vector<bool> likely(const std::vector<double>& logits, double temperature, double top_p) {
  const double top = *std::max_element(logits.begin(), logits.end(), is_less);
  std::vector<int64_t> weights;
  int64_t sum = 0;
  for (const double x : logits) {
    const float e = std::exp(static_cast<float>(x - top) / static_cast<float>(temperature));
    const float share = x == top || std::isnan(x) ? 1 : e >= 0 ? std::min(e, 1.0F) : 0;
    sum += weights.emplace_back(static_cast<int64_t>(share * 0x1p40F));
  }
  const auto part = static_cast<int64_t>(static_cast<float>(top_p) * 0x1p24F);
  const int64_t target = (sum >> 24) * part + (((sum & 0xffffff) * part + 0xffffff) >> 24);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  std::vector<bool> found(logits.size(), false);
  int64_t kept = 0;
  for (size_t i = 0; i < order.size() && (i == 0 || kept < target); ++i) {
    found[order[i]] = true;
    kept += weights[order[i]];
  }
  return found;
}

}  // namespace

void check_options(const GenerateOptions& options) {
  constexpr int64_t most_tokens = int64_t{1} << 40;
  constexpr double hottest = 100;
  std::vector<Problem> problems;
  const auto check = [&](const char* name, bool good, std::string_view expected, auto found) {
    if (!good) problems.push_back({name, fmt::format("expected {}, found {}", expected, found)});
  };
  const double temperature = options.temperature.value_or(0), top_p = options.top_p.value_or(1);  // NaN fails
  check("max_new_tokens", options.max_new_tokens >= 1 && options.max_new_tokens <= most_tokens,
        fmt::format("an integer from 1 to {}", most_tokens), options.max_new_tokens);
  check("temperature", temperature >= 0 && temperature <= hottest, fmt::format("a number from 0 to {}", hottest),
        temperature);
  check("top_p", top_p > 0 && top_p <= 1, "a number above 0 and at most 1", top_p);
  if (!problems.empty()) throw Error(ErrorKind::usage, std::move(problems));
}

Sampling sampling_of(const GenerateOptions& options) {
  const bool samples = options.top_p || options.seed;
  return {options.temperature.value_or(samples ? 1 : 0), options.top_p.value_or(1), options.seed.value_or(0)};
}

int64_t likeliest(const std::vector<double>& logits) {
  return std::max_element(logits.begin(), logits.end(), is_less) - logits.begin();
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
    if (!found || is_less(top, score)) best = token, top = score;
    found = true;
  }
  return static_cast<int64_t>(best);
}

}  // namespace npusim
