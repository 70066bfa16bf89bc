// What the kernels that spell out an order have in common: its form, their memory, and the operand and the result as
// they lie.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/facts/order.h"
#include "kernel/fuse/unfuse.h"

namespace npusim {

struct OrderSteps {
  explicit OrderSteps(const Kernel& kernel);

  const KernelArg& argument(const Access& access) const { return outer.args[static_cast<size_t>(access.arg)]; }
  Shape of_rows(int64_t elements) const;                    // rows ++ {elements}
  int add_scratch(const Shape& shape, DType dtype);         // its value
  std::vector<Coord> row_of(const KernelBuilder& k) const;  // the first dimensions of a step's space
  // The step that is built. `operand`: an argument that was built as if the order's operand were dense, −1: none.
  // `along`: where store 0 is the order's result, elements from one point of the last dimension to the next.
  void add(KernelBuilder& k, const std::string& name, std::vector<int> values, int operand,
           std::optional<int64_t> along);

  const Kernel& outer;
  const OrderForm form;
  const Shape rows;
  Unfused unfused;
};

}  // namespace npusim
