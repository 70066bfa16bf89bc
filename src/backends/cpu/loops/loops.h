// The vectorised interpreter of kernel IR: everything on the CPU that is not a contraction.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "kernel/kernel.h"

namespace npusim::cpu::loops {

// A kernel without contraction, compiled to tile bytecode: one SIMD loop per expression node over tiles that fit L1.
// Results do not depend on the number of threads, and are the same from run to run.
class Loops {
 public:
  // `threads`: most threads that will run it at once; all scratch is allocated here. With `boxes`, a kernel without a
  // row can also be run box by box, at the price of dimensions that are not merged.
  Loops(const Kernel& kernel, int threads, bool boxes = false);
  Loops(Loops&&) noexcept;
  Loops& operator=(Loops&&) noexcept;
  ~Loops();

  // args[i] is the memory of kernel.args[i]. Uses the pool and allocates nothing. False when an index left its extent
  // or an integer division had a zero divisor; what the stores wrote is then unspecified.
  bool run(void* const* args);
  // The part [begin, end) of the space, by this thread alone; different parts may run on different threads at once,
  // each with its own `thread` number. False when a trap was met since clear_trap().
  bool run_box(void* const* args, const int64_t* begin, const int64_t* end, int thread);

  void clear_trap();
  // What the last run that returned false found.
  std::string trap_message() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace npusim::cpu::loops
