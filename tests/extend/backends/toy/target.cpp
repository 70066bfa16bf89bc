// A target that takes what its device can evaluate: no kernel with a contraction.
#include "backends/toy/target.h"

namespace npusim::toy {
namespace {

class ToyTarget : public CodegenTarget {
 public:
  ToyTarget() { config_.name = "toy"; }
  std::string refuse(const Kernel& kernel) const override {
    return kernel.contraction ? "the toy has no contractions" : "";
  }
};

}  // namespace

const CodegenTarget& target() {
  static const ToyTarget instance;
  return instance;
}

}  // namespace npusim::toy
