// How the blocks of one persistent launch exchange data through memory: counters, and words that are written whole.
#pragma once

// ---- meet_block
// Of the first 256 threads.
__device__ __forceinline__ void meet_block() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// ---- count_in
// Adds one to a counter that all blocks see, behind all that the thread knows to be done; what it was.
__device__ __forceinline__ unsigned long long count_in(unsigned long long* counter) {
  unsigned long long before;
  asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;" : "=l"(before) : "l"(counter) : "memory");
  return before;
}

// ---- count_seen
__device__ __forceinline__ unsigned long long count_seen(const unsigned long long* counter) {
  unsigned long long seen;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(counter) : "memory");
  return seen;
}

// ---- hint_seen
__device__ __forceinline__ unsigned long long hint_seen(const unsigned long long* counter) {
  unsigned long long seen;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(counter) : "memory");
  return seen;
}

// ---- count_hint
__device__ __forceinline__ void count_hint(unsigned long long* counter) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(counter) : "memory");
}

// ---- write_whole
// 16 bytes at once, so that who reads some of them has all, and in no order with other memory.
__device__ __forceinline__ void write_whole(uint4* to, const uint4 word) {
  const unsigned long long low = word.x | (unsigned long long)word.y << 32,
                           high = word.z | (unsigned long long)word.w << 32;
  asm volatile("{\n.reg .b128 q;\nmov.b128 q, {%1, %2};\nst.relaxed.gpu.global.b128 [%0], q;\n}" ::"l"(to), "l"(low),
               "l"(high)
               : "memory");
}

// ---- read_whole
__device__ __forceinline__ uint4 read_whole(const uint4* from) {
  unsigned long long low, high;
  asm volatile("{\n.reg .b128 q;\nld.relaxed.gpu.global.b128 q, [%2];\nmov.b128 {%0, %1}, q;\n}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  uint4 word;
  word.x = (unsigned)low, word.y = (unsigned)(low >> 32), word.z = (unsigned)high, word.w = (unsigned)(high >> 32);
  return word;
}

// ---- prefetch_l2
// A line of memory into the cache that all blocks see, without waiting.
__device__ __forceinline__ void prefetch_l2(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// ---- pause
__device__ __forceinline__ void pause() {}

// ---- clocks
__device__ __forceinline__ unsigned clocks() {
  unsigned now;
  asm volatile("mov.u32 %0, %clock;" : "=r"(now));
  return now;
}
