// Copies to shared memory that threads do not wait for, 16 bytes each (cp.async).
#pragma once

// ---- copy_async
// To shared memory, without waiting; zeros where it is not there.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}

// ---- copy_part
// The same of a word's first bytes, through the first level of caches; zeros behind them.
__device__ __forceinline__ void copy_part(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(bytes)
               : "memory");
}

// ---- commit_copies
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// ---- wait_copies
// Until at most `later` of the commits are in flight.
template <int later>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}
