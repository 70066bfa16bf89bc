// compile() for a target that need not be in the build's table.
#pragma once
#include "codegen/target.h"
#include "npusim/compiler.h"

namespace npusim {

// `options.target` is not asked.
CompileResult compile_for(const CodegenTarget& target, const std::vector<MethodSource>& sources,
                          const CompileOptions& options = {});

}  // namespace npusim
