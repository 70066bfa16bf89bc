// A target that takes every kernel and has no language of its own.
#include "backends/null/target.h"

namespace npusim::null {
namespace {

class NullTarget : public CodegenTarget {
 public:
  // The hardware's rules as data. The name is the folder's; --config overrides any field.
  NullTarget() { config_.name = "null"; }

  // Kernels the device cannot run: give the reason, for people. The compiler refuses the model with it (or, when
  // partitioning, sends the node to the host).
  std::string refuse(const Kernel&) const override { return {}; }

  // A target that compiles ahead also has group() and plan(): they make launches of the steps and give their code. A
  // device that interprets kernel IR needs neither.
};

}  // namespace

const CodegenTarget& target() {
  static const NullTarget instance;
  return instance;
}

}  // namespace npusim::null
