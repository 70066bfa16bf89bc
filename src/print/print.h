// Source text of kernels without a contraction (unfuse() makes such of every kernel), in any language a Dialect
// describes, and how to launch it.
//
// A printed kernel takes one pointer per argument of the kernel, in order, and then, if takes_trap(), `int* trap`:
// a word the caller clears, which a launch that meets an index outside its extent or an integer division by zero
// overwrites with a number trap_message() explains. Such a load gives 0, such a store does nothing, such a quotient
// is 0. An argument and the one it `updates` are one buffer, and a result may lie where an operand lies if
// may_be_one() says so; other buffers must not overlap, which the text tells the compiler.
//
// What runs where is the schedule's: one thread computes one point of the space or, of kernels with reductions, one
// thread, warp or block computes one row; sums run in one fixed order, so results repeat bit for bit. Accumulating
// stores use no atomics: dimensions along which two points could meet at one address are walked by a single thread in
// index order. Where stores that do not accumulate meet, any of them stays.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "kernel/kernel.h"
#include "print/dialect.h"
#include "print/schedule.h"

namespace npusim {

// A one-dimensional launch; no blocks: nothing to compute, do not launch.
struct LaunchShape {
  int64_t blocks = 0;
  int threads = 1;  // in each block: a multiple of the warp
  bool operator==(const LaunchShape&) const = default;
};

// Why the kernel cannot be printed; nullopt if it can. The other functions here ask for a printable kernel that
// passes check_kernel().
std::optional<std::string> cannot_print(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);

// The function's name: the fusion's, then the content hash. Equal kernels have equal hashes.
std::string kernel_name(const Kernel& kernel);
std::string print_kernel(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);
LaunchShape launch_of(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule);
// With the schedule that choose_schedule() gives.
std::optional<std::string> cannot_print(const Kernel& kernel, const Dialect& dialect);
std::string print_kernel(const Kernel& kernel, const Dialect& dialect);
LaunchShape launch_of(const Kernel& kernel, const Dialect& dialect);

// One source of many kernels; those of equal content and name are printed once.
struct Scheduled {
  const Kernel* kernel;
  Schedule schedule;
  // Statements before all others, and those before anything is read or written but arguments that are there `ahead`.
  std::string opening = {}, wait = {};
  std::vector<bool> ahead = {};
  std::string suffix = {};  // of the name: equal kernels that begin differently
};
std::string print_kernels(std::span<const Scheduled> kernels, const Dialect& dialect);
std::string print_kernels(std::span<const Kernel* const> kernels, const Dialect& dialect);
// The kernels alone, without what they call: with_helpers() makes a source of it and of others.
std::string print_functions(std::span<const Scheduled> kernels, const Dialect& dialect);
// The whole source: functions behind the helpers that they mention.
std::string with_helpers(const std::string& functions, const Dialect& dialect);

bool takes_trap(const Kernel& kernel);
// Numbers of a kernel's traps: from 1 on.
int trap_count(const Kernel& kernel);
// What a nonzero trap word means.
std::string trap_message(const Kernel& kernel, int code);

}  // namespace npusim
