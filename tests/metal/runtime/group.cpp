// Schedules the fibers of one threadgroup until all have returned, and checks how they meet.
#include "group.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace mslx {

thread_local Execution* execution = nullptr;

namespace {

char* map_memory(size_t bytes) {
  return static_cast<char*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

std::string place(unsigned site) {
  return "line " + std::to_string(site / 256) + " column " + std::to_string(site % 256);
}

void suspend() {
  Execution& e = *execution;
  ++e.result.switches;
  leave(*e.current, e.scheduler);
}

void entry() {
  Execution& e = *execution;
  arrived(e.scheduler);
  acquire(&e.sync[0]);
  for (;;) {
    e.kernel->thunk(&e.current->call);
    release(&e.sync[1]);
    e.current->state = State::done;
    suspend();
  }
}

// Lets a simdgroup go on if all its live lanes wait at the same collective.
bool release_simdgroup(Execution& e, unsigned number) {
  const unsigned begin = number * 32, end = std::min(e.threads, begin + 32);
  unsigned mask = 0;
  const Fiber* first = nullptr;
  bool mixed = false;
  for (unsigned i = begin; i < end; ++i) {
    Fiber& f = e.fibers[i];
    if (f.state == State::ready) return false;
    if (f.state == State::at_barrier) mixed = true;
    if (f.state != State::at_simd) continue;
    if (!first)
      first = &f;
    else if (f.site != first->site)
      mixed = true;
    mask |= 1u << (i - begin);
  }
  if (!first) return false;
  if (mixed) {
    e.failure = "divergent simdgroup: " + describe(*first) + " waits at " + place(first->site) +
                " while other live lanes wait elsewhere";
    return false;
  }
  e.simdgroups[number].mask = mask;
  e.simdgroups[number].parity ^= 1;
  ++e.result.simd_ops;
  for (unsigned i = begin; i < end; ++i)
    if (e.fibers[i].state == State::at_simd) e.fibers[i].state = State::ready;
  return true;
}

template <class T>
void arrange(Execution& e, T* numbers, unsigned count) {
  for (unsigned i = 0; i < count; ++i) numbers[i] = e.options.order == Order::reverse ? count - 1 - i : i;
  if (e.options.order == Order::random) std::shuffle(numbers, numbers + count, e.random);
}

// Runs every ready fiber, simdgroup by simdgroup, until each is done or at a threadgroup barrier.
void run_to_barrier(Execution& e) {
  unsigned groups[64], lanes[32];
  const unsigned count = (e.threads + 31) / 32;
  arrange(e, groups, count);
  for (unsigned g = 0; g < count; ++g) {
    const unsigned begin = groups[g] * 32, width = std::min(32u, e.threads - begin);
    do {
      arrange(e, lanes, width);
      for (unsigned i = 0; i < width; ++i) {
        Fiber& f = e.fibers[begin + lanes[i]];
        if (f.state != State::ready || f.looked == e.changes) continue;
        e.current = &f;
        enter(f, e.scheduler);
        if (!e.failure.empty()) return;
      }
    } while (release_simdgroup(e, groups[g]));
    if (!e.failure.empty()) return;
  }
}

// Threads poll: what they wait for may be done by threads of other threadgroups.
bool wait_for_others(Execution& e) {
  constexpr uint64_t most_turns = 20'000'000;
  if (++e.turns > most_turns)
    e.failure = "threads wait for what does not come, " + describe(*e.current) + " among them";
  std::this_thread::yield();
  return false;
}

// Whether all threads have returned; else all wait at one barrier, which opens, or `failure` is set.
bool all_done(Execution& e) {
  unsigned done = 0;
  const Fiber* first = nullptr;
  bool mixed = false;
  for (unsigned i = 0; i < e.threads; ++i) {
    const Fiber& f = e.fibers[i];
    if (f.state == State::ready) return wait_for_others(e);
    if (f.state == State::done) ++done;
    if (f.state != State::at_barrier) continue;
    if (!first)
      first = &f;
    else if (f.site != first->site)
      mixed = true;
  }
  if (done == e.threads) return true;
  if (mixed)
    e.failure = "divergent threadgroup_barrier: " + describe(*first) + " waits at " + place(first->site) +
                ", other threads at another barrier";
  else if (done)
    e.failure = "threadgroup_barrier at " + place(first->site) +
                " not reached by all threads: " + std::to_string(done) + " of " + std::to_string(e.threads) +
                " threads returned";
  ++e.result.barriers;
  for (unsigned i = 0; i < e.threads; ++i)
    if (e.fibers[i].state == State::at_barrier) e.fibers[i].state = State::ready;
  return false;
}

__attribute__((no_sanitize("address"))) unsigned char red_zone_byte(const volatile unsigned char* at) { return *at; }

void check_red_zones(Execution& e, const mslx_call& base) {
  for (const auto& [site, block] : e.blocks) {
    const auto* zone = reinterpret_cast<const unsigned char*>(e.arena) + block.offset + block.bytes;
    for (size_t i = 0; i < red_zone; ++i) {
      if (red_zone_byte(zone + i) == 0xff) continue;
      e.failure = "write past the end of a threadgroup array (" + std::to_string(block.bytes) + " bytes, +" +
                  std::to_string(i) + ") in threadgroup (" + std::to_string(base.tgpig[0]) + "," +
                  std::to_string(base.tgpig[1]) + "," + std::to_string(base.tgpig[2]) + ")";
      return;
    }
  }
}

void start_fibers(Execution& e, const mslx_call& base) {
  for (unsigned i = 0; i < e.threads; ++i) {
    Fiber& f = e.fibers[i];
    f.index = i;
    f.call = base;
    const unsigned position[3] = {i % base.tptg[0], i / base.tptg[0] % base.tptg[1], i / (base.tptg[0] * base.tptg[1])};
    for (int d = 0; d < 3; ++d) {
      f.call.tpitg[d] = position[d];
      f.call.tpig[d] += position[d];
    }
    f.call.tiitg = i;
    f.call.tiisg = i & 31;
    f.call.sgitg = i >> 5;
    f.call.qgitg = i >> 2;
    f.call.tiiqg = i & 3;
    prepare(f, entry);
    f.state = State::ready;
    f.looked = ~uint64_t{0};
  }
}

// Threadgroups are unordered: fresh threadgroup memory and stacks keep them apart for ThreadSanitizer.
void renew_memory([[maybe_unused]] Execution& e) {
#if defined(MSLX_TSAN)
  munmap(e.arena, e.arena_bytes);
  e.arena = map_memory(e.arena_bytes);
  for (int i = 0; i < 31; ++i)
    if (e.threadgroup_offset[i] != ~size_t{0}) e.threadgroup[i] = e.arena + e.threadgroup_offset[i];
  const unsigned capacity = e.capacity;
  munmap(e.stacks, capacity * stack_bytes);
  e.stacks = nullptr;
  e.capacity = 0;
  e.reserve(capacity);
#endif
}

}  // namespace

Execution::~Execution() {
  if (stacks) {
    unpoison_region(stacks, capacity * stack_bytes);
    munmap(stacks, capacity * stack_bytes);
  }
  if (arena) {
    unpoison_region(arena, arena_bytes);
    munmap(arena, arena_bytes);
  }
}

void Execution::reserve(unsigned count) {
  if (!arena) arena = map_memory(arena_bytes);
  if (count <= capacity) return;
  if (stacks) unpoison_region(stacks, capacity * stack_bytes);
  if (stacks) munmap(stacks, capacity * stack_bytes);
  capacity = count;
  fibers.resize(count);
  simdgroups.reset(new Simdgroup[(count + 31) / 32]);
  stacks = map_memory(size_t{count} * stack_bytes);
  for (unsigned i = 0; i < count; ++i) fibers[i].stack = stacks + size_t{i} * stack_bytes;
}

char* Execution::allocate(unsigned site, size_t bytes) {
  auto it = blocks.find(site);
  if (it == blocks.end()) {
    const size_t offset = (arena_top + 15) & ~size_t{15};
    arena_top = offset + bytes + red_zone;
    if (arena_top > arena_bytes) {
      fprintf(stderr, "threadgroup memory of more than %zu bytes\n", arena_bytes);
      abort();
    }
    if (options.poison) raw_fill(arena + offset, bytes + red_zone);
    poison_region(arena + offset + bytes, red_zone);
    it = blocks.emplace(site, Block{offset, bytes}).first;
  }
  return arena + it->second.offset;
}

std::string describe(const Fiber& f) {
  char text[160];
  snprintf(text, sizeof text, "thread (%u,%u,%u) of threadgroup (%u,%u,%u)", f.call.tpitg[0], f.call.tpitg[1],
           f.call.tpitg[2], f.call.tgpig[0], f.call.tgpig[1], f.call.tgpig[2]);
  return text;
}

void run_group(Execution& e, mslx_call base) {
  e.threads = base.tptg[0] * base.tptg[1] * base.tptg[2];
  base.sgptg = (e.threads + 31) / 32;
  base.tpsg = 32;
  base.qgptg = (e.threads + 3) / 4;
  renew_memory(e);
  if (e.options.poison) raw_fill(e.arena, e.arena_top);
  if (e.kernel->flat && !e.options.force_fibers) {
    e.result.flat = true;
    e.kernel->flat(&base);
    return;
  }
  e.reserve(e.threads);
  start_fibers(e, base);
  for (unsigned s = 0; s < base.sgptg; ++s) e.simdgroups[s].parity = 0;
#if defined(MSLX_TSAN)
  e.scheduler.tsan = __tsan_get_current_fiber();
#endif
  release(&e.sync[0]);
  do {
    run_to_barrier(e);
  } while (e.failure.empty() && !all_done(e) && e.failure.empty());
  e.current = nullptr;
  if (!e.failure.empty()) return;
#if defined(MSLX_TSAN)
  for (unsigned i = 0; i < e.threads; ++i) __tsan_destroy_fiber(e.fibers[i].tsan);
#endif
  if (e.options.poison) check_red_zones(e, base);
}

}  // namespace mslx

using mslx::Execution;
using mslx::execution;
using mslx::Fiber;
using mslx::State;

// What the shim calls (declared in shim/msl_types.h).
extern "C" {

void mslx_barrier([[maybe_unused]] unsigned flags, unsigned site) {
  Execution& e = *execution;
  Fiber& f = *e.current;
  f.state = State::at_barrier;
  f.site = site;
#if defined(MSLX_TSAN)
  if (flags) __tsan_release(&e.sync[2 + (f.barriers & 1)]);  // mem_none orders nothing
#endif
  mslx::suspend();
#if defined(MSLX_TSAN)
  if (flags) __tsan_acquire(&e.sync[2 + (f.barriers & 1)]);
  ++f.barriers;
#endif
}

const unsigned char* mslx_simd_xchg(const void* from, unsigned bytes, unsigned, unsigned site, unsigned* mask,
                                    unsigned* lane) {
  Execution& e = *execution;
  Fiber& f = *e.current;
  mslx::Simdgroup& group = e.simdgroups[f.index >> 5];
  const unsigned parity = group.parity;
  *lane = f.index & 31;
  mslx::raw_copy(group.slots[parity][*lane], from, bytes);
  f.state = State::at_simd;
  f.site = site;
  mslx::suspend();
  *mask = group.mask;
#if defined(MSLX_TSAN)
  mslx::raw_copy(f.table, &group.slots[parity][0][0], sizeof f.table);  // the exchange itself is no race
  return f.table;
#else
  return &group.slots[parity][0][0];
#endif
}

void mslx_simd_barrier(unsigned, unsigned site) {
  Execution& e = *execution;
  Fiber& f = *e.current;
  f.state = State::at_simd;
  f.site = site;
#if defined(MSLX_TSAN)
  mslx::Simdgroup& group = e.simdgroups[f.index >> 5];
  __tsan_release(&group.sync[f.simd_barriers & 1]);
#endif
  mslx::suspend();
#if defined(MSLX_TSAN)
  __tsan_acquire(&group.sync[f.simd_barriers++ & 1]);
#endif
}

// Lets others go on, and comes back; the second one once a thread of the threadgroup has said that it has changed
// something.
void mslx_yield() { mslx::suspend(); }
void mslx_yield_until_change() {
  Execution& e = *execution;
  mslx::Fiber& f = *e.current;
  f.looked = e.changes;
  mslx::suspend();
  f.looked = ~uint64_t{0};
}
void mslx_change() { ++execution->changes; }

const mslx_call* mslx_current() { return &execution->current->call; }

void* mslx_tg_alloc(unsigned site, unsigned long bytes) { return execution->allocate(site, bytes); }

void mslx_fail(const char* message) {
  Execution& e = *execution;
  if (e.failure.empty()) e.failure = message + (e.current ? " in " + mslx::describe(*e.current) : std::string());
  if (!e.current) return;
  e.current->state = State::done;
  mslx::suspend();
}

}  // extern "C"
