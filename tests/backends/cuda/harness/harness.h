// Executes printed CUDA C++ on the CPU, one block after the other, a fiber for each thread.
#pragma once
#include <string>

#include "print/dialect.h"
#include "runtime/emulator.h"

namespace npusim {

// CUDA's dialect without the helpers that the harness has itself.
const Dialect& harness_dialect();

// Functions as printed, behind the helpers that they mention; Library::error holds the compiler's messages.
mslx::Library compile_on_cpu(const std::string& functions);

}  // namespace npusim
