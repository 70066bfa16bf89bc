// The executable's operator new, which counts.
#include "backends/cpu/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> count{0};
}
void* operator new(size_t size) {
  ++count;
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, std::align_val_t align) {
  ++count;
  if (void* p =
          std::aligned_alloc(static_cast<size_t>(align), (size + static_cast<size_t>(align) - 1) /
                                                             static_cast<size_t>(align) * static_cast<size_t>(align)))
    return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(size ? size : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

int64_t allocations() { return count; }
