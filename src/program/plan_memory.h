// Memory planning: lifetimes to offsets in one arena.
#pragma once
#include <cstdint>
#include <vector>

namespace npusim {

// A value that must exist from step `begin` to step `end`, both included.
struct Lifetime {
  uint64_t bytes = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  // one per lifetime, multiples of `alignment`
  uint64_t bytes = 0;             // the arena
  uint64_t lower_bound = 0;       // largest sum of sizes alive at one step
};

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, uint64_t alignment);

}  // namespace npusim
