// From lifetimes to offsets, as those of a program's arena.
#include "backends/cuda/codegen/stream/block_memory.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "program/plan_memory.h"

namespace npusim::cuda::codegen::stream {

void BlockMemory::keep(Offsets& where, int32_t name, int64_t bytes, int64_t now) {
  const auto [life, fresh] = lives_.try_emplace({&where, name}, Life{bytes, now, now});
  life->second.end = now;
  where.emplace(name, 0);
}

int64_t BlockMemory::assign(const std::vector<Span>& spans, int64_t cheap) {
  constexpr uint64_t alignment = 128;
  std::vector<Lifetime> lives;
  for (const auto& [key, life] : lives_)
    lives.push_back(
        {static_cast<uint64_t>(life.bytes), static_cast<int32_t>(life.begin), static_cast<int32_t>(life.end)});
  const auto span_of = [&](int64_t time) {
    const auto behind =
        std::partition_point(spans.begin(), spans.end(), [&](const Span& s) { return s.first <= time; });
    return behind != spans.begin() && std::prev(behind)->second >= time ? *std::prev(behind) : Span{time, time};
  };
  std::vector<Lifetime> longer = lives;
  for (Lifetime& life : longer) {
    life.begin = static_cast<int32_t>(span_of(life.begin).first);
    life.end = static_cast<int32_t>(span_of(life.end).second);
  }
  MemoryPlan plan = plan_memory(longer, alignment);
  if (static_cast<int64_t>(plan.bytes) > cheap)
    if (MemoryPlan least = plan_memory(lives, alignment); least.bytes < plan.bytes) plan = std::move(least);
  for (size_t n = 0; const auto& [key, life] : lives_)
    (*key.first)[key.second] = static_cast<int64_t>(plan.offsets[n++]);
  return static_cast<int64_t>(plan.bytes);
}

}  // namespace npusim::cuda::codegen::stream
