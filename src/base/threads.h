// The one thread pool: OpenMP's, which oneDNN uses too, with its threads bound to cores from the start.
#pragma once
#include <cstdint>
#include <functional>

namespace npusim {

// Number of threads that parallel work of the calling thread uses: one per core at first.
int thread_count();

// Sets it while it lives; 0 leaves it as it is.
class ThreadCount {
 public:
  explicit ThreadCount(int count);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// Re-executes this process with OpenMP's binding and waiting policy in its environment, unless they are set:
// the OpenMP runtime reads them only at start. Returns when nothing is to be done.
void bind_threads(char** argv);

// Binds the calling thread and the workers that help it, `count` threads in all, to a core each: those after the cores
// that earlier calls in this process took. For programs that use npusim as a library, once in each thread that runs
// sessions; what else is on the machine then takes no core from some workers while the others wait. False, with nothing
// changed, where there are fewer cores or the environment binds threads already (OMP_PROC_BIND).
bool bind_team(int count);

// Calls body(begin, end, thread) on contiguous static parts of [0, count), each at least `grain` long; serial when
// one part is left. The body must not throw.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body);

}  // namespace npusim
