// The execution of one threadgroup: its fibers, threadgroup memory, barriers and simdgroup exchanges.
#pragma once
#include <csetjmp>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fiber.h"

namespace mslx {

struct Simdgroup {
  alignas(64) unsigned char slots[2][32][64];  // by parity: an exchange may start while the last one is still read
  unsigned parity = 0, mask = 0;
  char sync[2];
};

struct Block {  // of threadgroup memory
  size_t offset, bytes;
};
constexpr size_t red_zone = 64;
constexpr unsigned dynamic_site = 100000;  // sites from here on are [[threadgroup(n)]] arguments

// Everything one worker needs to run threadgroups of one kernel.
struct Execution {
  const mslx_kernel_desc* kernel = nullptr;
  Options options;
  Result result;
  std::string failure;
  std::mt19937_64 random;

  std::vector<Fiber> fibers;
  std::unique_ptr<Simdgroup[]> simdgroups;
  unsigned capacity = 0, threads = 0;
  char* stacks = nullptr;
  Fiber* current = nullptr;
  uint64_t turns = 0;    // of all threads while some poll
  uint64_t changes = 0;  // of what threads of a threadgroup wait for that its own threads alone change
  Scheduler scheduler;
  char sync[4];  // start, end, and two alternating barriers: a fast fiber must not publish barrier g + 1 into g

  char* arena = nullptr;
  size_t arena_bytes = 1 << 20, arena_top = 0;
  std::map<unsigned, Block> blocks;  // by site
  void* threadgroup[31] = {};
  size_t threadgroup_offset[31];
  sigjmp_buf fault;

  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();
  void reserve(unsigned count);
  char* allocate(unsigned site, size_t bytes);
};

extern thread_local Execution* execution;

std::string describe(const Fiber& fiber);
// `base` holds what is the same for all threads; base.tptg is the size of this group. Sets `failure`.
void run_group(Execution& e, mslx_call base);

}  // namespace mslx
