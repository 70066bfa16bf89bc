// What the compiler asks of a target, answerable on a machine without the device.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "kernel/target_config.h"

namespace npusim {

class CodegenTarget {
 public:
  virtual ~CodegenTarget() = default;
  virtual const TargetConfig& config() const = 0;
  // Why the target cannot run this kernel ("" if it can).
  virtual std::string refuse(const Kernel& kernel) const = 0;
  // The kernel's source in the target's language; empty when kernel IR itself is what the device runs.
  virtual std::string source(const Kernel& kernel) const = 0;
};

// The targets of this build, by name: generated from the folders of backends/ (src/CMakeLists.txt).
const CodegenTarget* find_target(const std::string& name);
std::vector<std::string> target_names();

}  // namespace npusim
