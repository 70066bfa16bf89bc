// One kernel as a function that other text calls for each of its blocks.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "print/dialect.h"
#include "print/schedule.h"

namespace npusim {

// Memory that a block's threads share.
struct SharedArray {
  std::string_view type;
  std::string name;
  int64_t elements = 0;
};

struct PrintedPart {
  std::string function;
  std::vector<SharedArray> shared;  // the caller declares them
};

// Parameters: a pointer for each argument of the kernel, to the block's own memory where `in_shared` says so, the trap
// word if takes_trap(), the shared arrays, `block` and `thread_index`. Pointers promise what a kernel's do where
// `no_alias` says so, and of all arguments where they are known to be `apart`. Numbers of traps are those behind
// `first_trap`.
struct PartContext {
  std::vector<bool> in_shared;  // by argument
  int first_trap = 0;
  bool no_alias = false;
  bool apart = false;
};
PrintedPart print_part(const Kernel& kernel, const Dialect& dialect, const Schedule& schedule, const std::string& name,
                       const PartContext& context);

}  // namespace npusim
