// The switch between fibers: x86-64 System V, callee-saved registers on the stack, an indirect jump instead of a return
// (returns would miss the processor's return stack every time).
#include "fiber.h"

extern "C" void mslx_swap(void** save, void* load);
asm(R"(.text
.globl mslx_swap
.type mslx_swap,@function
mslx_swap:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  popq %rcx
  jmp *%rcx
.size mslx_swap,.-mslx_swap
)");

namespace mslx {

void prepare(Fiber& f, void (*entry)()) {
  // Stack tops are staggered so that fibers do not all map onto the same cache sets.
  uintptr_t top = reinterpret_cast<uintptr_t>(f.stack) + stack_bytes - 64 - (f.index * 448) % 16384;
  top &= ~uintptr_t{63};
  void** slot = reinterpret_cast<void**>(top);
  *--slot = nullptr;
  *--slot = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--slot = nullptr;
  f.sp = slot;
#if defined(MSLX_ASAN)
  __asan_unpoison_memory_region(f.stack, stack_bytes);
  f.fake_stack = nullptr;
#endif
#if defined(MSLX_TSAN)
  f.tsan = __tsan_create_fiber(0);
  f.barriers = f.simd_barriers = 0;
#endif
}

void enter(Fiber& f, Scheduler& s) {
#if defined(MSLX_TSAN)
  __tsan_switch_to_fiber(f.tsan, 1);  // 1: the switch itself orders nothing
#endif
#if defined(MSLX_ASAN)
  __sanitizer_start_switch_fiber(&s.fake_stack, f.stack, stack_bytes);
#endif
  mslx_swap(&s.sp, f.sp);
#if defined(MSLX_ASAN)
  __sanitizer_finish_switch_fiber(s.fake_stack, nullptr, nullptr);
#endif
}

void leave(Fiber& f, Scheduler& s) {
#if defined(MSLX_TSAN)
  __tsan_switch_to_fiber(s.tsan, 1);
#endif
#if defined(MSLX_ASAN)
  __sanitizer_start_switch_fiber(f.state == State::done ? nullptr : &f.fake_stack, s.bottom, s.size);
#endif
  mslx_swap(&f.sp, s.sp);
#if defined(MSLX_ASAN)
  __sanitizer_finish_switch_fiber(f.fake_stack, &s.bottom, &s.size);
#endif
}

void arrived([[maybe_unused]] Scheduler& s) {
#if defined(MSLX_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &s.bottom, &s.size);
#endif
}

}  // namespace mslx
