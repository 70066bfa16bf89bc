// Lifetimes to places, as those of a program's arena.
#include "backends/cuda/target/stream/block_memory.h"

#include <cstddef>
#include <vector>

#include "program/plan_memory.h"

namespace npusim::cuda {

void BlockMemory::keep(Places& where, int32_t name, int64_t bytes, int64_t now) {
  const auto [life, fresh] = lives_.try_emplace({&where, name}, Life{bytes, now, now});
  life->second.end = now;
  where.emplace(name, 0);
}

int64_t BlockMemory::place() {
  constexpr uint64_t alignment = 128;
  std::vector<Lifetime> lives;
  for (const auto& [key, life] : lives_)
    lives.push_back(
        {static_cast<uint64_t>(life.bytes), static_cast<int32_t>(life.begin), static_cast<int32_t>(life.end)});
  const MemoryPlan plan = plan_memory(lives, alignment);
  for (size_t n = 0; const auto& [key, life] : lives_)
    (*key.first)[key.second] = static_cast<int64_t>(plan.offsets[n++]);
  return static_cast<int64_t>(plan.bytes);
}

}  // namespace npusim::cuda
