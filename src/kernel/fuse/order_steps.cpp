// Steps are built as if memory were dense; what they read and write of the order's own is put in place behind that.
#include "kernel/fuse/order_steps.h"

#include <algorithm>

#include "base/shape.h"
#include "kernel/fuse/simplify.h"

namespace npusim {
namespace {

// The order's operand as it lies: of accesses to a dense one.
void read_as_it_lies(Kernel& step, int arg, const OrderSteps& steps) {
  const Access& from = *steps.form.from;
  step.args[static_cast<size_t>(arg)].elements = steps.argument(from).elements;
  for (Access& a : step.accesses) {
    if (a.arg != arg) continue;
    const int64_t along = a.strides.back();  // an affine position in the row: 1, or 0
    a.offset = from.offset;
    a.strides.assign(step.space.size(), 0);
    std::copy(from.strides.begin(), from.strides.end() - 1, a.strides.begin());
    if (a.terms.empty())
      a.strides.back() = along * from.strides.back();
    else
      a.terms[0].stride = from.strides.back();
  }
}

}  // namespace

OrderSteps::OrderSteps(const Kernel& kernel)
    : outer(kernel), form(order_form(kernel)), rows(kernel.space.begin(), kernel.space.end() - 1) {}

Shape OrderSteps::of_rows(int64_t elements) const {
  Shape shape = rows;
  shape.push_back(elements);
  return shape;
}

int OrderSteps::add_scratch(const Shape& shape, DType dtype) {
  unfused.scratch.push_back({dtype, element_count(shape)});
  return static_cast<int>(outer.args.size() + unfused.scratch.size()) - 1;
}

std::vector<Coord> OrderSteps::row_of(const KernelBuilder& k) const {
  std::vector<Coord> at;
  for (size_t d = 0; d < rows.size(); ++d) at.emplace_back(k.dim(static_cast<int>(d)));
  return at;
}

void OrderSteps::add(KernelBuilder& k, const std::string& name, std::vector<int> values, int operand,
                     std::optional<int64_t> along) {
  BoundKernel step{k.finish(outer.name + name), std::move(values)};
  if (operand >= 0) read_as_it_lies(step.kernel, operand, *this);
  if (along) {
    Access& to = step.kernel.stores[0].access;
    to.guards.clear();
    to.offset = form.to->offset;
    to.strides.assign(step.kernel.space.size(), 0);
    std::copy(form.to->strides.begin(), form.to->strides.end() - 1, to.strides.begin());
    to.strides.back() = *along;
  }
  order_args(step);
  simplify(step);
  unfused.steps.push_back(std::move(step));
}

}  // namespace npusim
