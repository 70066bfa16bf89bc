// bisect() for a target that need not be in the build's table, and for devices of the caller's.
#pragma once
#include "codegen/target.h"
#include "npusim/compiler.h"
#include "runtime/backend.h"

namespace npusim {

Bisection bisect_for(const CodegenTarget& target, const MethodSource& source, const CompileOptions& options,
                     const std::vector<HostTensor>& inputs, std::shared_ptr<const TensorSet> weights,
                     std::optional<double> tolerance, const std::string& folder = {},
                     const std::vector<std::shared_ptr<Backend>>& devices = {});

}  // namespace npusim
