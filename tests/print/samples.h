// One kernel of every family the printer must get right, with inputs, a reference run and a comparison.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "kernel/kernel.h"
#include "print/schedule.h"

namespace npusim {

struct PrintSample {
  std::string name;
  Kernel kernel;
  double low = -3, high = 3;              // of float inputs
  int64_t integers = 4;                   // integer inputs are in [0, integers)
  bool distinct = false;                  // integer inputs are different from each other
  double tolerance = 4;                   // in rounding steps of the output's dtype at max(1, |expected|)
  bool is_golden = false;                 // its text is kept in golden/
  bool traps = false;                     // inputs make it trap
  std::optional<Schedule> schedule = {};  // other than the default one
};

std::vector<PrintSample> print_samples();
// A linear layer with its bias and relu: the example of docs/design.md, which is printed as "linear_rows".
Kernel linear_relu();

// Memory of every argument of the kernel: inputs random but the same each time, outputs 0xcd, an updated output a copy
// of what it updates.
std::vector<HostTensor> sample_memory(const PrintSample& sample);
// The same memory after evaluate().
std::vector<HostTensor> sample_reference(const PrintSample& sample);
// What differs from the reference beyond the tolerance; "" if nothing.
std::string sample_difference(const PrintSample& sample, const std::vector<HostTensor>& expected,
                              const std::vector<HostTensor>& found);

}  // namespace npusim
