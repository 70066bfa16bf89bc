// bisect() for a target that need not be in the build's table.
#pragma once
#include "codegen/target.h"
#include "npusim/compiler.h"

namespace npusim {

Bisection bisect_for(const CodegenTarget& target, const MethodSource& source, const CompileOptions& options,
                     const std::vector<HostTensor>& inputs, std::shared_ptr<const TensorSet> weights, double tolerance,
                     const std::string& folder = {});

}  // namespace npusim
