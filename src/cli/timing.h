// Times of repeated runs and their percentiles.
#pragma once
#include <chrono>
#include <vector>

namespace npusim::cli {

struct Timing {
  double min_ms = 0, median_ms = 0, p10_ms = 0, p90_ms = 0;
};
// `ms` must not be empty. Percentiles interpolate between neighbours.
Timing summarize(std::vector<double> ms);

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace npusim::cli
