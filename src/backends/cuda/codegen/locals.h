// Some of a kernel's expressions at one point, as a function whose results go to the caller's own variables: for text
// that does with them what no kernel says.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/kernel.h"
#include "print/point.h"

namespace npusim::cuda::codegen {

class PointValues {
 public:
  // Of the kernel's reads and expressions, and of its stores where it `stores`.
  explicit PointValues(const Kernel& kernel, bool stores = false);
  int32_t add(const Expr& e);
  // From here on the expression is what the caller has in a variable of this dtype, the next one that is given.
  void give(int32_t expr, DType dtype);
  // The next variable that is taken: where a guard does not hold, or a term is outside of its extent and traps, it
  // stays as it is. Numbers of traps are the kernel's if its first store is the one with its terms.
  void take(int32_t expr, DType dtype, std::vector<Guard> guards = {}, std::vector<IndexTerm> terms = {});
  std::string print(const std::string& name, const std::vector<PointPosition>& positions);
  // The call, by the names that the kernel's own function has for its arguments: positions, then pointers to what is
  // given and taken, each in order.
  std::string call(const std::string& name, const std::vector<std::string>& positions,
                   const std::vector<std::string>& given, const std::vector<std::string>& taken) const;

 private:
  Kernel own_;  // without arguments that are written; stores name those
  std::vector<KernelArg> written_;
  int reads_ = 0, writes_ = 0;  // of the kernel's own arguments
};

// A function of two variables of this dtype, NAME(&first, &second, &result, 0): what a reduction makes of them, or the
// log of the sum of what they are logs of. The result may be where one of them is.
std::string combination_text(const std::string& name, DType dtype, Reduction reduction, bool log_of_sum = false);

// Of a variable that holds what memory of the dtype holds: 16-bit floats are float.
DType held_dtype(DType dtype);
std::string_view held_type(DType dtype);

}  // namespace npusim::cuda::codegen
