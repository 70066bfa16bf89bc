// Parallel loops over OpenMP's pool.
#include "base/threads.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace npusim {

int thread_count() { return omp_get_max_threads(); }

ThreadCount::ThreadCount(int count) : before_(omp_get_max_threads()) {
  if (count > 0) omp_set_num_threads(count);
}
ThreadCount::~ThreadCount() { omp_set_num_threads(before_); }

void bind_threads(char** argv) {
  if (std::getenv("OMP_PROC_BIND") || std::getenv("NPUSIM_NO_BIND")) return;
  setenv("OMP_PROC_BIND", "close", 1);
  setenv("OMP_PLACES", "cores", 0);
  setenv("OMP_WAIT_POLICY", "active", 0);
  setenv("NPUSIM_NO_BIND", "1", 1);
  execv("/proc/self/exe", argv);
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body) {
  const int64_t parts = std::min<int64_t>(thread_count(), count / std::max<int64_t>(grain, 1));
  if (parts <= 1) {
    if (count > 0) body(0, count, 0);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    const int64_t part = omp_get_thread_num();
    body(count * part / parts, count * (part + 1) / parts, static_cast<int>(part));
  }
}

}  // namespace npusim
