// Percentiles.
#include "cli/timing.h"

#include <algorithm>

namespace npusim::cli {

Timing summarize(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  auto at = [&](double fraction) {
    const double position = fraction * static_cast<double>(ms.size() - 1);
    const auto below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, ms.size() - 1);
    return ms[below] + (ms[above] - ms[below]) * (position - static_cast<double>(below));
  };
  return {ms.front(), at(0.5), at(0.1), at(0.9)};
}

}  // namespace npusim::cli
