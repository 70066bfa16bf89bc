// Barriers in shared memory on which threads and copies arrive, and the copies (sm_90).
#pragma once

// ---- mbarrier_start
// What a method that is one launch needs, of sm_90: barriers in shared memory, on which copies arrive.
__device__ __forceinline__ void mbarrier_start(unsigned long long* at, unsigned count) {
  asm volatile(
      "mbarrier.init.shared.b64 [%0], %1;\n"
      "fence.mbarrier_init.release.cluster;\n"
      "fence.proxy.async.shared::cta;" ::"r"((unsigned)__cvta_generic_to_shared(at)),
      "r"(count)
      : "memory");
}

// ---- mbarrier_arrive
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* at) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"((unsigned)__cvta_generic_to_shared(at)) : "memory");
}

// ---- mbarrier_arrive_times
__device__ __forceinline__ void mbarrier_arrive_times(unsigned long long* at, unsigned times) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(at)), "r"(times)
               : "memory");
}

// ---- mbarrier_expect
// Arrives, and expects copies of so many bytes.
__device__ __forceinline__ void mbarrier_expect(unsigned long long* at, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(at)),
               "r"(bytes)
               : "memory");
}

// ---- mbarrier_wait
// Until the phase of this parity is over.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* at, unsigned parity) {
  unsigned over = 0;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(parity)
                 : "memory");
  } while (!over);
}

// ---- mbarrier_wait_both
// The same of two of one parity.
__device__ __forceinline__ void mbarrier_wait_both(unsigned long long* one, unsigned long long* other,
                                                   unsigned parity) {
  unsigned over = 0;
  do {
    asm volatile(
        "{\n.reg .pred p, q;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %3;\n"
        "mbarrier.try_wait.parity.shared.b64 q, [%2], %3;\nand.pred p, p, q;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(over)
        : "r"((unsigned)__cvta_generic_to_shared(one)), "r"((unsigned)__cvta_generic_to_shared(other)), "r"(parity)
        : "memory");
  } while (!over);
}

// ---- is_elected
// Of a warp that is together, one thread; what it does then is known to be done once.
__device__ __forceinline__ bool is_elected() {
  unsigned one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
  return one;
}

// ---- copy_bulk
// To shared memory, in multiples of 16 bytes; arrives on the barrier.
__device__ __forceinline__ void copy_bulk(void* to, const void* from, unsigned bytes, unsigned long long* at) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   (unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(at))
               : "memory");
}

// ---- copy_bulk_once
// The same of what is read once: the cache gives it up before anything else.
__device__ __forceinline__ void copy_bulk_once(void* to, const void* from, unsigned bytes, unsigned long long* at) {
  unsigned long long first;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"((unsigned)__cvta_generic_to_shared(to)),
      "l"(from), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(at)), "l"(first)
      : "memory");
}

// ---- arrive_behind_copies
// When all copies that this thread asked for before have come, it arrives.
__device__ __forceinline__ void arrive_behind_copies(unsigned long long* at) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"((unsigned)__cvta_generic_to_shared(at))
               : "memory");
}
