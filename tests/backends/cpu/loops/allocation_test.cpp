// Running loops allocates nothing: counted with this executable's operator new.
#include "backends/cpu/allocations.h"
#include "backends/cpu/loops/check.h"

namespace npusim::cpu::loops {
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
    const int64_t before = allocations();
    for (int i = 0; i < 10; ++i) loops.run(args.data());
    EXPECT_EQ(allocations() - before, 0) << n;
  }
}

}  // namespace
}  // namespace npusim::cpu::loops
