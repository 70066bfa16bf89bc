// How much a method does, counted from its kernels: memory it must touch and arithmetic of its contractions. Of keys
// whose number is known only when it runs, as if all were there.
#pragma once
#include <cstdint>

#include "program/program.h"

namespace npusim {

Work kernel_work(const Kernel& kernel);
Work method_work(const Program& program, const Method& method);

}  // namespace npusim
