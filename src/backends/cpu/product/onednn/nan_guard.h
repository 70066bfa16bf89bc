// Steps of a library whose activations turn NaN into numbers, made right.
//
// A minimum, maximum or comparison that drops a NaN raises the processor's flag of an invalid operation, in the thread
// that executes it; so does whatever makes a NaN of numbers. The flag stays until it is taken: a step after which no
// thread has it met no NaN where one could get lost. Reading it costs nothing next to a convolution.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/step.h"
#include "kernel/facts/epilogue_chain.h"

namespace npusim::cpu::product::onednn {

// Whether oneDNN's threads are the team that this thread has now (base/threads.h), and show in their flags that a NaN
// got lost: tried by losing one.
bool sees_lost_nan(PrimitiveCache& primitives);

// Whether the kernel can run twice: it reads nothing that it writes.
bool repeatable(const Kernel& kernel);

// Whether epilogues with these operations need a guard. The other activations keep NaN: they multiply by what they get.
bool may_lose_nan(const std::vector<EpilogueOp>& ops);

// `fast`, and after it `exact`, of the same kernel, when `fast` may have lost a NaN. The kernel must be repeatable.
std::unique_ptr<BoundStep> guard_nan(std::unique_ptr<BoundStep> fast, std::unique_ptr<BoundStep> exact);

// `fast` where `count` elements at `data` are all finite, else `exact`.
std::unique_ptr<BoundStep> guard_finite(std::unique_ptr<BoundStep> fast, std::unique_ptr<BoundStep> exact, DType dtype,
                                        const void* data, int64_t count, const Context& context);

}  // namespace npusim::cpu::product::onednn
