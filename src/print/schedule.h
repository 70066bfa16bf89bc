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
  bool operator==(const Schedule&) const = default;
};

// By the length of the rows and how many there are.
Schedule choose_schedule(const Kernel& kernel, const Dialect& dialect);
// Why the kernel cannot run so; nullopt if it can.
std::optional<std::string> cannot_schedule(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);

}  // namespace npusim
