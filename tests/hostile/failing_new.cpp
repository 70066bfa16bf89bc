// The executable's operators new and delete.
#include "hostile/failing_new.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace npusim::hostile {

std::atomic<int64_t> left{-1};
size_t least = 0;

}  // namespace npusim::hostile

namespace {

using npusim::hostile::left;

bool fails(size_t bytes) {
  return bytes >= npusim::hostile::least && left.load(std::memory_order_relaxed) >= 0 && left.fetch_sub(1) == 0;
}

void* allocate(size_t bytes, size_t alignment) {
  if (fails(bytes)) return nullptr;
  void* memory = nullptr;
  return posix_memalign(&memory, std::max(alignment, sizeof(void*)), std::max<size_t>(bytes, 1)) == 0 ? memory
                                                                                                      : nullptr;
}
void* allocate_or_throw(size_t bytes, size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}
constexpr size_t usual = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, usual); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, usual); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
