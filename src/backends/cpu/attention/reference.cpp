// A step that evaluates its kernel point by point.
#include "backends/cpu/attention/reference.h"

#include "kernel/evaluate.h"

namespace npusim::cpu::attention {
namespace {

class ReferenceStep final : public BoundStep {
 public:
  ReferenceStep(const Kernel& kernel, std::span<const Binding> args) : kernel_(kernel) {
    for (const Binding& binding : args) args_.push_back(binding.data);
  }
  void run() override { evaluate(kernel_, args_, true); }
  std::string describe() const override { return "attention by the reference implementation"; }

 private:
  Kernel kernel_;
  std::vector<void*> args_;
};

}  // namespace

Answer make_reference_step(product::Problem& problem) {
  return accept(std::make_unique<ReferenceStep>(problem.kernel, problem.args));
}

}  // namespace npusim::cpu::attention
