// Source text of kernels without a contraction, in any language a Dialect describes, and how to launch it.
//
// A printed kernel takes one pointer per argument of the kernel, in order, and then, if takes_trap(), `int* trap`:
// a word the caller clears, which a launch that meets an index outside its extent or an integer division by zero
// overwrites with a number trap_message() explains. Such a load gives 0, such a store does nothing, such a quotient
// is 0. Buffers must not overlap, except that an argument and the one it `updates` are one buffer.
//
// What runs where: without reductions one thread computes one point of the space. With them one thread, one warp or
// one block computes one row, by its length; sums run in one fixed order, so results repeat bit for bit. Scans are
// one thread per row. Accumulating stores use no atomics: dimensions along which two points could meet at one address
// are walked by a single thread in index order. Where stores that do not accumulate meet, any of them stays.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "kernel/kernel.h"
#include "print/dialect.h"

namespace npusim {

// A one-dimensional launch; no blocks: nothing to compute, do not launch.
struct LaunchShape {
  int64_t blocks = 0;
  int threads = 1;  // in each block: a multiple of the warp
  bool operator==(const LaunchShape&) const = default;
};

// Why the kernel cannot be printed; nullopt if it can. The other functions here ask for a printable kernel that
// passes check_kernel().
std::optional<std::string> cannot_print(const Kernel& kernel, const Dialect& dialect);

// The function's name: the fusion's, then the content hash. Equal kernels have equal hashes.
std::string kernel_name(const Kernel& kernel);
std::string print_kernel(const Kernel& kernel, const Dialect& dialect);
// One source of many kernels; those of equal content and name are printed once.
std::string print_kernels(std::span<const Kernel* const> kernels, const Dialect& dialect);
LaunchShape launch_of(const Kernel& kernel, const Dialect& dialect);

bool takes_trap(const Kernel& kernel);
// What a nonzero trap word means.
std::string trap_message(const Kernel& kernel, int code);

}  // namespace npusim
