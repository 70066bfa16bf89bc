// How a kernel's points are shared among threads: decided before printing, by choose_schedule() or by who knows better.
#pragma once
#include <optional>
#include <string>

#include "kernel/kernel.h"
#include "print/dialect.h"

namespace npusim {

enum class RowLoop : uint8_t {
  none,    // every point is a thread's: for kernels without reductions and scans
  thread,  // one thread walks the row
  warp,    // the lanes of one warp stride along it
  block,   // the threads of one block do
};

struct Schedule {
  RowLoop row = RowLoop::none;
  int threads = 256;  // in a block: a multiple of the warp
  // Neighbours that a thread computes at a time: along the row where threads share it, else along the last dimension of
  // what a thread has one of. Memory that is proven to lie so is read and written in words of 16 bytes, and a row that
  // fits into its threads' registers is read once.
  int lanes = 1;
  bool operator==(const Schedule&) const = default;
};

// By the length of the rows and how many there are.
Schedule choose_schedule(const Kernel& kernel, const Dialect& dialect);
// The same with lanes where words are worth it, for a device of so many multiprocessors.
Schedule choose_lanes(const Kernel& kernel, const Dialect& dialect, int multiprocessors);
// Why the kernel cannot run so; nullopt if it can.
std::optional<std::string> cannot_schedule(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);

}  // namespace npusim
