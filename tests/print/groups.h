// Groups of kernels as samples of what one function must do, with memory and a reference run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "print/group.h"

namespace npusim {

struct GroupSample {
  std::string name;
  std::vector<std::shared_ptr<const Kernel>> kernels = {};  // that the group points to
  KernelGroup group = {};
  int64_t integers = 4;           // integer inputs are in [0, integers)
  std::vector<int> inputs = {};   // positions of memories; the others are NaN until they are written
  std::vector<int> outputs = {};  // what is compared
};

// A norm and a product over its rows, whose values are the block's own; attention in its three kernels; two kernels
// that can trap; a kernel that updates in place what the one before it wrote, and rows of one block each.
std::vector<GroupSample> group_samples();

std::vector<HostTensor> group_memory(const GroupSample& sample);
// The same memory after the kernels, one after the other.
std::vector<HostTensor> group_reference(const GroupSample& sample);
// The first output that is further than rounding from the reference; "" if none is.
std::string group_difference(const GroupSample& sample, const std::vector<HostTensor>& expected,
                             const std::vector<HostTensor>& found);

}  // namespace npusim
