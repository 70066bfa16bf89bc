// Parallel loops over OpenMP's pool.
#include "base/threads.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <vector>

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

bool bind_team(int count) {
  static std::atomic<unsigned> taken = 0;
  cpu_set_t allowed;
  if (omp_get_proc_bind() != omp_proc_bind_false || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  if (count < 1 || static_cast<size_t>(count) > cores.size()) return false;
  const unsigned first = taken.fetch_add(static_cast<unsigned>(count));
#pragma omp parallel num_threads(count)
  {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cores[(first + static_cast<unsigned>(omp_get_thread_num())) % cores.size()], &own);
    sched_setaffinity(0, sizeof own, &own);
  }
  return true;
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
