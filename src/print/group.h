// Several kernels as one function, which one block runs one after the other: what one of them stores the next ones
// read.  Each kernel is a function of its own, of (block, thread), and the entry calls it for each of its blocks one
// after the other, with a barrier behind it. Memory that only the group uses may be the block's own.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "print/print.h"

namespace npusim {

struct KernelGroup {
  struct Memory {
    DType dtype = DType::f32;
    int64_t elements = 0;
    bool shared = false;  // the block's own, unspecified at first; else a parameter
  };
  struct Part {
    const Kernel* kernel = nullptr;
    Schedule schedule;        // `threads` are the same for all
    std::vector<int> memory;  // by argument: position in `memories`
  };
  std::vector<Memory> memories;
  std::vector<Part> parts;
};

// Why the group cannot be printed; nullopt if it can. The other functions ask for one that can.
std::optional<std::string> cannot_print(const KernelGroup& group, const Dialect& dialect);

// "group_" and the hash of all that the text depends on.
std::string group_name(const KernelGroup& group);
// The functions without what they call (with_helpers). Parameters: a pointer for each memory that is not shared, in
// order, then the trap word if takes_trap(). A launch is one block of the parts' threads.
std::string print_group(const KernelGroup& group, const Dialect& dialect);
bool takes_trap(const KernelGroup& group);
// Traps of the n-th part have the numbers behind first_trap(group, n), in the order of trap_message().
int first_trap(const KernelGroup& group, size_t part);

}  // namespace npusim
