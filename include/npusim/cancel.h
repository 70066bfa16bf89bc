// Stopping what is under way: a compile, a load, a run. Sessions have a function of their own for it, cancel().
#pragma once
#include <functional>

#include "npusim/error.h"

namespace npusim {

// While one lives, what the calling thread does in npusim asks it between the steps that it is made of. Once `asked`
// returns true the function under way throws Error of kind cancelled, having undone what it began as after any other
// failure; `asked` may throw something of its own instead. It is called often and should be quick. A scope within
// another's asks both.
class NPUSIM_API CancelScope {
 public:
  explicit CancelScope(std::function<bool()> asked);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  friend void check_cancelled();
  std::function<bool()> asked_;
  const CancelScope* outer_;
};

// For programs of npusim's own: from now on SIGINT, SIGTERM and SIGHUP end the process at once with exit code 128 and
// the signal's number (Ctrl-C: 130), and what it is writing is removed. One that is ignored stays so.
NPUSIM_API void end_on_signals();

}  // namespace npusim
