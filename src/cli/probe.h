// What this machine can do, measured now: reading memory and multiplying, with the threads in use.
#pragma once

namespace npusim::cli {

inline constexpr int probe_repetitions = 8;  // the best counts: whatever else runs only slows a probe down

double probe_read_gb_s();     // 1e9 bytes/s, reading 256 MB that no cache holds
double probe_gflop_s();       // 1e9 float32 FLOP/s of fused multiply-adds, two each
double probe_bf16_gflop_s();  // 1e9 FLOP/s of bfloat16 products added in float32 by AMX; 0 where there is none

}  // namespace npusim::cli
