// Where printed texts are executed: on this machine's GPU if it has one, else on its CPU.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/harness/harness.h"
#include "backends/cuda/target_compile.h"
#include "base/tensor.h"

namespace npusim {

class TextRunner {
 public:
  explicit TextRunner(const std::string& functions) : TextRunner(std::vector<cuda::Source>{{"printed", functions}}) {}
  // A GPU's code is made of them by all cores.
  explicit TextRunner(const std::vector<cuda::Source>& functions);
  ~TextRunner();
  TextRunner(const TextRunner&) = delete;
  TextRunner& operator=(const TextRunner&) = delete;
  const std::string& error() const { return error_; }  // of the compiler
  // Launches one kernel on the memory of its arguments; what went wrong, a trap among it. On the CPU, threads take
  // turns in this order, and arguments that are not there ahead come when the launch waits for what precedes it.
  std::string run(const Kernel& kernel, const cuda::codegen::GeneratedKernel& made, std::vector<HostTensor>& memory,
                  mslx::Order order, const std::vector<bool>& ahead);

 private:
  struct Gpu;
  std::string error_;
  std::unique_ptr<Gpu> gpu_;
  mslx::Library library_;
};

}  // namespace npusim
