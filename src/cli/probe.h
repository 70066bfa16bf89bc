// What this machine can do, measured now: reading memory and multiplying in float32, with the threads in use.
#pragma once

namespace npusim::cli {

double probe_read_gb_s();  // 1e9 bytes/s, reading 256 MB that no cache holds
double probe_gflop_s();    // 1e9 float32 FLOP/s of fused multiply-adds, two each

}  // namespace npusim::cli
