// GPU threads as fibers: stacks, the switch between them, and what the sanitizers must be told about it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulator.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MSLX_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define MSLX_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MSLX_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MSLX_ASAN 1
#endif

#if defined(MSLX_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void*);
void __tsan_switch_to_fiber(void*, unsigned);
void __tsan_acquire(void*);
void __tsan_release(void*);
}
#endif
#if defined(MSLX_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void**, const void*, size_t);
void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
void __asan_poison_memory_region(void const volatile*, size_t);
void __asan_unpoison_memory_region(void const volatile*, size_t);
}
#endif

namespace mslx {

enum class State : uint8_t { ready, at_barrier, at_simd, done };
constexpr size_t stack_bytes = 128 * 1024;

struct Fiber {
  void* sp = nullptr;
  State state = State::done;
  unsigned site = 0, index = 0;    // where it waits; its number in the threadgroup
  uint64_t looked = ~uint64_t{0};  // how often the threadgroup had changed what it waits for, when it looked in vain
  char* stack = nullptr;
  mslx_call call;
#if defined(MSLX_TSAN)
  void* tsan = nullptr;
  unsigned barriers = 0, simd_barriers = 0;
  unsigned char table[32 * 64];
#endif
#if defined(MSLX_ASAN)
  void* fake_stack = nullptr;
#endif
};

// The scheduler that fibers return to: one per OS thread.
struct Scheduler {
  void* sp = nullptr;
#if defined(MSLX_TSAN)
  void* tsan = nullptr;
#endif
#if defined(MSLX_ASAN)
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
#endif
};

void prepare(Fiber& fiber, void (*entry)());
void enter(Fiber& fiber, Scheduler& scheduler);
void leave(Fiber& fiber, Scheduler& scheduler);
void arrived(Scheduler& scheduler);  // first thing on a fresh stack

// Happens-before edges, seen by ThreadSanitizer only.
inline void acquire([[maybe_unused]] void* sync) {
#if defined(MSLX_TSAN)
  __tsan_acquire(sync);
#endif
}
inline void release([[maybe_unused]] void* sync) {
#if defined(MSLX_TSAN)
  __tsan_release(sync);
#endif
}

inline void poison_region([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MSLX_ASAN)
  __asan_poison_memory_region(at, bytes);
#endif
}

// Before memory is unmapped: whoever gets its addresses next must not inherit the poison.
inline void unpoison_region([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MSLX_ASAN)
  __asan_unpoison_memory_region(at, bytes);
#endif
}

// Fills and copies that no sanitizer intercepts.
inline void raw_fill(void* to, size_t bytes) {
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0xff) : "memory");
}
inline void raw_copy(void* to, const void* from, size_t bytes) {
#if defined(MSLX_TSAN)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  memcpy(to, from, bytes);
#endif
}

}  // namespace mslx
