// Kernels that transform rows, on the host.
#pragma once
#include <memory>
#include <vector>

#include "backends/cpu/step.h"

namespace npusim::cpu::fourier {

// Many rows side by side, one to a lane of a vector; few, or long ones, one after the other. Real rows of an even
// length as complex ones of half of it.
std::unique_ptr<BoundStep> make_fourier_step(const Kernel& kernel, std::vector<void*> args, int threads);

}  // namespace npusim::cpu::fourier
