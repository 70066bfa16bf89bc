// The one thread pool: OpenMP's, which oneDNN uses too.
//
// Work is divided into shares, as many as threads were asked for, and a team of whatever size takes turns at them: none
// is left out, scratch of a share is used by one thread at a time, and results do not depend on what OpenMP gives
// (OMP_THREAD_LIMIT, OMP_DYNAMIC, a parallel region of the caller's, a process that was forked).
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "npusim/machine.h"

namespace npusim {

// Throws device where the machine does not give so many threads at once: OpenMP would end the process.
void reserve_threads(int count);
// As many as it gives of so many, and why not all.
int given_threads(int count, std::string* why = nullptr);

// Has parallel work of the calling thread use teams of `count` threads while it lives, or of as many as OpenMP gives at
// most; 0: of as many as before.
class ThreadCount {
 public:
  explicit ThreadCount(int count);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int count_, dynamic_, levels_;
};

// Something to call with an int, by reference: nothing is allocated.
class IntCall {
 public:
  template <typename Body>
  requires(!std::is_same_v<std::remove_cv_t<Body>, IntCall>)
      IntCall(Body& body)  // NOLINT: a reference to it, as the call's argument
      : body_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* of, int n) { (*static_cast<Body*>(of))(n); }) {}
  void operator()(int n) const { call_(body_, n); }

 private:
  void* body_;
  void (*call_)(void*, int);
};

// Calls body(share) once for each share of [0, threads). The first exception is thrown again when all are done.
void run_shares(int threads, IntCall body);
template <typename Body>
void on_threads(int threads, Body&& body) {
  if (threads <= 1) return body(0);
  run_shares(threads, body);
}

// Calls body(thread) once on every thread of a team, `thread` counted from 0: for what threads have each of their own.
// The body must not throw.
void on_team(IntCall body);

// Calls work() where teams are as large as a ThreadCount of `count` makes them, and have the same threads each time:
// here, or, inside a parallel region of the caller's, on a thread of its own. A library whose plans hold for one size
// of team needs that, and so does who reads flags of its threads.
void with_team(int count, const std::function<void()>& work);

// Calls body(begin, end, share) on contiguous shares of [0, count), each at least `grain` long, at most thread_count().
template <typename Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  const int64_t shares = std::min<int64_t>(thread_count(), count / std::max<int64_t>(grain, 1));
  if (shares > 1)
    on_threads(static_cast<int>(shares),
               [&](int share) { body(count * share / shares, count * (share + 1) / shares, share); });
  else if (count > 0)
    body(int64_t{0}, count, 0);
}

}  // namespace npusim
