// Samples printed as MSL, compiled into one library and executed in the emulator.
#pragma once
#include <string>
#include <vector>

#include "compile.h"
#include "print/samples.h"

namespace npusim {

Schedule metal_schedule(const PrintSample& sample);
mslx::Library compile_samples(const std::vector<PrintSample>& samples, const std::string& flags = "");

// Blocks are whole, so threads beyond the last point must touch nothing. Runs in guarded buffers; returns
// the trap word.
int run_sample(const PrintSample& sample, const mslx::Library& library, const mslx::Options& options,
               std::vector<HostTensor>& memory);

}  // namespace npusim
