// Kernels as the CUDA target makes them, executed and compared with the reference.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/harness/features.h"
#include "backends/cuda/harness/machine.h"

namespace npusim {

struct Case {
  std::string name;
  Kernel kernel;
  cuda::codegen::GeneratedKernel made;
  std::vector<bool> ahead = {};                              // by argument; empty: none
  std::function<void(std::vector<HostTensor>&)> given = {};  // puts what it needs into random memory
};

// The second operand is there ahead, as a weight is.
std::vector<bool> second_ahead(const Kernel& kernel);
std::vector<HostTensor> random_memory(const Kernel& kernel, unsigned seed);
std::vector<HostTensor> execute(const Case& c, TextRunner& machine, std::vector<HostTensor> memory, mslx::Order order);
// "" where they are as near as sums in another order are, each element, and if `together` all of them (relative L2).
std::string difference(const Case& c, const std::vector<HostTensor>& expected, const std::vector<HostTensor>& found,
                       bool together = false);

// Of a kernel under a name of its own, so that equal kernels under different shapes have functions of their own. What
// it is made as begins with `how`.
Case chosen(std::string name, Kernel kernel, const std::string& how);
// Compiled for every architecture where NVRTC is, and run: one answer, whatever the order of threads. What is `drawn`
// is compiled where it runs alone, and compared together, too.
void check(const std::vector<Case>& cases, bool drawn = false);

// Every architecture takes the functions, and says nothing about them; without NVRTC nothing is asked.
void check_nvrtc(const std::string& functions, const std::vector<std::string>& architectures = {"sm_80", "sm_90a"});

// A kernel as all the steps that the target makes of it.
struct Steps {
  std::string name;
  Kernel kernel;
  size_t count = 1;                   // of its parts; 0: as many as there are
  std::vector<std::string> how = {};  // the first words of each, from the first on
};

void check_steps(const std::vector<Steps>& all, bool drawn = false);

}  // namespace npusim
