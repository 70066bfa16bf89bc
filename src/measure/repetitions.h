// How often probes measure.
#pragma once

namespace npusim {

inline constexpr int probe_repetitions = 8;  // the best counts: whatever else runs only slows a probe down

}  // namespace npusim
