// Read bandwidth and multiply-add throughput, compiled once per instruction set.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "measure/repetitions.h"
#include "npusim/machine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/probe.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npusim {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

uint64_t sum_words(const uint64_t* words, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, words + i));
    b = hn::Add(b, hn::LoadU(d, words + i + lanes));
    c = hn::Add(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// Ten independent chains hide the latency of a multiply-add; begun alike, a compiler would make them one. Returns
// something that depends on all of them.
float multiply_add(int64_t rounds, int64_t* flops) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  auto a = hn::Iota(d, 1), b = hn::Iota(d, 2), c = hn::Iota(d, 3), e = hn::Iota(d, 4), f = hn::Iota(d, 5);
  auto g = hn::Iota(d, 6), h = hn::Iota(d, 7), i = hn::Iota(d, 8), j = hn::Iota(d, 9), k = hn::Iota(d, 10);
  for (int64_t n = 0; n < rounds; ++n) {
    a = hn::MulAdd(a, factor, term), b = hn::MulAdd(b, factor, term), c = hn::MulAdd(c, factor, term);
    e = hn::MulAdd(e, factor, term), f = hn::MulAdd(f, factor, term), g = hn::MulAdd(g, factor, term);
    h = hn::MulAdd(h, factor, term), i = hn::MulAdd(i, factor, term), j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term);
  }
  *flops = rounds * 10 * 2 * static_cast<int64_t>(hn::Lanes(d));
  a = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, hn::Add(i, hn::Add(j, k)))));
  return hn::GetLane(hn::SumOfLanes(d, a));
}

}  // namespace HWY_NAMESPACE
}  // namespace npusim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npusim {
namespace {

HWY_EXPORT(sum_words);
HWY_EXPORT(multiply_add);

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double probe_read_gb_s(int wanted_threads) {
  const ThreadCount limit(checked_threads("threads", wanted_threads));
  constexpr int64_t words = int64_t{256} << 17;  // 256 MB
  std::vector<uint64_t> memory(words);
  parallel_for(words, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) memory[static_cast<size_t>(i)] = static_cast<uint64_t>(i);
  });
  std::vector<uint64_t> sums(static_cast<size_t>(thread_count()) * 8);
  double best = 1e30;
  for (int i = 0; i < probe_repetitions; ++i)
    best = std::min(best, seconds_of([&] {
                      parallel_for(words, 1, [&](int64_t begin, int64_t end, int thread) {
                        sums[static_cast<size_t>(thread) * 8] +=
                            HWY_DYNAMIC_DISPATCH(sum_words)(memory.data() + begin, end - begin);
                      });
                    }));
  volatile uint64_t sink = sums[0];
  static_cast<void>(sink);
  return static_cast<double>(words) * 8 / best / 1e9;
}

double probe_gflop_s(int wanted_threads) {
  const ThreadCount limit(checked_threads("threads", wanted_threads));
  constexpr int64_t rounds = 2'000'000;
  const int threads = thread_count();
  std::vector<float> results(static_cast<size_t>(threads) * 16);
  std::vector<int64_t> flops(static_cast<size_t>(threads) * 8);
  double best = 1e30;
  for (int i = 0; i < probe_repetitions; ++i)
    best = std::min(best, seconds_of([&] {
                      parallel_for(threads, 1, [&](int64_t, int64_t, int thread) {
                        const auto at = static_cast<size_t>(thread);
                        results[at * 16] = HWY_DYNAMIC_DISPATCH(multiply_add)(rounds, &flops[at * 8]);
                      });
                    }));
  volatile float sink = results[0];
  static_cast<void>(sink);
  double total = 0;
  for (size_t t = 0; t < flops.size(); t += 8) total += static_cast<double>(flops[t]);
  return total / best / 1e9;
}

}  // namespace npusim
#endif
