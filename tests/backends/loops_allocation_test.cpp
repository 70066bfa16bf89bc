// Running loops allocates nothing: counted with this executable's operator new.
#include <atomic>
#include <cstdlib>
#include <new>

#include "loops_check.h"

namespace {
std::atomic<int64_t> allocations{0};
}
void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, std::align_val_t align) {
  ++allocations;
  if (void* p = std::aligned_alloc(static_cast<size_t>(align), (size + static_cast<size_t>(align) - 1) / static_cast<size_t>(align) * static_cast<size_t>(align))) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size ? size : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace npusim::cpu {
namespace {

TEST(Loops, RunAllocatesNothing) {
  for (int64_t n : {1, 100, 300000}) {
    KernelBuilder b({n});
    const int x = b.input({DType::f16, {n}}), y = b.input({DType::f32, {n}});
    b.store(b.output({DType::f16, {n}}), tanh(b.load_broadcast(x)) * b.load_broadcast(y) + 1.0);
    const Kernel k = b.finish("tanh_mul");
    Memory memory = random_arguments(k, {});
    const std::vector<void*> args = pointers(k, memory);
    Loops loops(k, 2);
    loops.run(args.data());
    const int64_t before = allocations;
    for (int i = 0; i < 10; ++i) loops.run(args.data());
    EXPECT_EQ(allocations - before, 0) << n;
  }
}

}  // namespace
}  // namespace npusim::cpu
