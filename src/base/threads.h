// The one thread pool: OpenMP's, which oneDNN uses too, with its threads bound to cores from the start.
#pragma once
#include <cstdint>
#include <functional>

#include "npusim/machine.h"

namespace npusim {

// Sets thread_count() of the calling thread while it lives; 0 leaves it as it is.
class ThreadCount {
 public:
  explicit ThreadCount(int count);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// Calls body(begin, end, thread) on contiguous static parts of [0, count), each at least `grain` long; serial when
// one part is left. The body must not throw.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body);

}  // namespace npusim
