// What surrounds products by warpgroups (wgmma); the products themselves, one for each width, multiply_group.h writes.
#pragma once

// ---- group_matrix
// Lines of 64 elements of 16 bits, from element k on, whose words are swizzled by the number of the line; eight lines
// are a kilobyte.
__device__ __forceinline__ unsigned long long group_matrix(const void* lines, int k) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(lines) + k * 2;
  return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// ---- group_matrix_transposed
// Lines of 64 elements swizzled likewise, of which 16 are the depth; the next 64 columns lie `lines` lines further.
__device__ __forceinline__ unsigned long long group_matrix_transposed(const void* first, int lines) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(first);
  return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(lines * 8) << 16 | 64ull << 32 | 1ull << 62;
}

// ---- begin_group
__device__ __forceinline__ void begin_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// ---- commit_group
__device__ __forceinline__ void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// ---- wait_group
template <int later>
__device__ __forceinline__ void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
}

// ---- hold
// What a group made is read behind this and not before; what it takes is there before.
template <int n>
__device__ __forceinline__ void hold(float (&sums)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
}
template <int n>
__device__ __forceinline__ void hold(unsigned (&words)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("" : "+r"(words[i][0]), "+r"(words[i][1]), "+r"(words[i][2]), "+r"(words[i][3])::"memory");
}

// ---- show_words
// What this thread wrote to shared memory, for warpgroups to multiply.
__device__ __forceinline__ void show_words() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- acquire_section
// An ordered section: the second half of a block's 256 threads waits until the first one has released it, each as often
// as the other.
__device__ __forceinline__ void acquire_section() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// ---- release_section
__device__ __forceinline__ void release_section() { asm volatile("bar.arrive 1, 256;" ::: "memory"); }

// ---- take_registers
// Of four warps, which then have so many for each thread.
template <int left>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(left));
}

// ---- give_registers
template <int then>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(then));
}

// ---- max_halves
// The larger ones of the lower and of the upper halves (sm_90).
__device__ __forceinline__ unsigned max_halves(unsigned a, unsigned b) {
  unsigned larger;
  asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
