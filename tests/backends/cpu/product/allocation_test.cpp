// Matmul and GEMV steps allocate nothing while they run (oneDNN's convolutions do, inside the library).
#include "backends/cpu/allocations.h"
#include "backends/cpu/product/check.h"

namespace npusim::cpu::product {
namespace {

using Coords = std::vector<Coord>;

TEST(ContractionAllocation, RunAllocatesNothing) {
  auto check = [](int64_t rows, DType type) {
    KernelBuilder b({rows, 600});
    const int x = b.input({type, {rows, 700}}), w = b.input({type, {600, 700}}), out = b.output({type, {rows, 600}});
    b.store(out, tanh(b.contract(ContractionKind::matmul, {700}, x, Coords{b.dim(0), b.dim(2)}, w,
                                 Coords{b.dim(1), b.dim(2)})));
    ContractionRun run = prepare(b.finish("linear"), {1}, make_context(2));
    run.step->run();
    const int64_t before = allocations();
    for (int i = 0; i < 3; ++i) run.step->run();
    EXPECT_EQ(allocations() - before, 0) << run.step->describe();
  };
  on_every_instruction_set([&] {
    for (DType type : {DType::bf16, DType::f32})
      for (int64_t rows : {1, 40}) check(rows, type);
  });
}

}  // namespace
}  // namespace npusim::cpu::product
