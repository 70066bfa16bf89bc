// This machine: what its processor is used for, how threads are bound to it, and what it can do, measured.
#pragma once
#include <cstdint>
#include <string_view>

#include "npusim/error.h"

namespace npusim {

// What is in use, "AVX2": the processor's instruction set, or less where the environment's NPUSIM_ISA says so. Throws
// usage when that is no name of an instruction set.
NPUSIM_API const char* instruction_set_name();

// Re-executes this process with OpenMP's binding, and a bound for how long its threads wait for work, in its
// environment, unless they are set: the OpenMP runtime reads them only at start. Returns when nothing is to be done.
// Call it first in main(): threads that may move between cores cost a busy machine much of its speed.
NPUSIM_API void bind_threads(char** argv);
// Binds the calling thread and the workers that help it, `count` threads in all, to a core each: those after the cores
// that earlier calls in this process took. For programs that use npusim as a library, once in each thread that runs
// sessions; what else is on the machine then takes no core from some workers while the others wait. False, with nothing
// changed, where there are fewer cores or the environment binds threads already (OMP_PROC_BIND).
NPUSIM_API bool bind_team(int count);
// The most threads that may be asked for, wherever a count of them is given.
inline constexpr int most_threads = 4096;
// The count, if it is 1 to most_threads, or 0, which leaves it to npusim. Throws usage otherwise, with `what` in front.
NPUSIM_API int checked_threads(std::string_view what, int64_t count);
// Threads that parallel work of the calling thread uses, and what a session that it opens takes unless it is told: one
// per core, or what OpenMP's environment says.
NPUSIM_API int thread_count();

// Measured now, for about a second, the best of several times: whatever else runs only slows a probe down.
// `threads` 0: thread_count().
NPUSIM_API double probe_read_gb_s(int threads = 0);  // 1e9 bytes/s, reading 256 MB that no cache holds
NPUSIM_API double probe_gflop_s(int threads = 0);    // 1e9 float32 FLOP/s of fused multiply-adds, two each
// 1e9 FLOP/s of bfloat16 products added in float32 by AMX; 0 where there is none.
NPUSIM_API double probe_bf16_gflop_s(int threads = 0);

}  // namespace npusim
